//! Calls on two hosts joined in virtual time, in one program: none leaves anything in the process that another would see.
mod dgram;
mod epoll;
mod errno_families;
mod errno_matrix;
mod events_matrix;
mod fastopen;
mod never_panics;
mod options_matrix;
mod pipe;
mod sctp_calls;
mod sctp_many;
mod sctp_matrix;
mod sctp_reading;
mod sctp_sockets;
mod stream;
mod support;
mod waiting;
