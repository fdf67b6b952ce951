//! The stack of a host behind its verbs, with a journal of every call where one is wanted.
use crate::journal::{Answer, Input, Recorder};
use bytes::Bytes;
use lowwater_core::base::{DeviceId, Error, Instant, SocketId, Sysctl};
use lowwater_core::device::{Device, DeviceCaps, Submit};
use lowwater_core::packet::{Owner, Packet};
use lowwater_core::qdisc::Any;
use lowwater_core::socket::{Event, ListenAddr, ListenOptions};
use lowwater_core::stack::{Config, Stack, Transmitted};
use lowwater_core::tcp::{How, SendFlags, SocketOptions, TcpInfo};
use std::net::{IpAddr, SocketAddr};

/// A stack with one device.
pub struct Core {
    stack: Stack,
    dev: DeviceId,
    /// Packets wait in the device.
    keeps: bool,
    seed: u64,
    recorder: Option<Box<Recorder>>,
}

/// Notes the input (built only when there is a journal), makes the call, notes its result.
macro_rules! journaled {
    ($self:ident, $now:expr, $input:expr, $call:expr) => {{
        if let Some(r) = &mut $self.recorder {
            r.input($now, &$input);
        }
        let result = $call;
        if let Some(r) = &mut $self.recorder {
            r.result(&result);
        }
        result
    }};
}

impl Core {
    /// A stack without devices.
    #[must_use]
    pub fn new(seed: u64, sysctl: Sysctl, now: Instant) -> Self {
        Self {
            stack: Stack::new(Config { sysctl, seed }, now),
            dev: DeviceId(0),
            keeps: true,
            seed,
            recorder: None,
        }
    }

    /// The queue before the device holds packets back until their departure time. (What `netem` holds back has no owner any more.)
    #[must_use]
    pub fn holds_back(&self) -> bool {
        self.stack.honours_departure(self.dev)
            && self.stack.qdisc(self.dev).is_some_and(|report| report.kind != "netem")
    }

    /// Packets wait in the device: what is there is in a flow's own queue.
    #[must_use]
    pub const fn keeps(&self) -> bool {
        self.keeps
    }

    /// Starts the journal; before the first other call.
    pub fn record(&mut self) {
        let recorder = Recorder::new(self.seed, self.stack.sysctl(), self.stack.now());
        self.recorder = Some(Box::new(recorder));
    }

    /// The journal so far.
    #[must_use]
    pub fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_deref()
    }

    /// The stack, for reports.
    #[must_use]
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The stack, for reports that need it mutable and for the flight recorder. Verbs called here miss the journal.
    pub fn stack_mut(&mut self) -> &mut Stack {
        &mut self.stack
    }

    /// Attaches the device.
    pub fn add_device(&mut self, now: Instant, caps: DeviceCaps) {
        self.keeps = caps.keeps;
        self.dev = journaled!(self, now, Input::AddDevice(caps), self.stack.add_device(caps));
    }

    /// IP bytes in the queueing discipline before the device.
    #[must_use]
    pub fn qdisc_backlog(&self) -> u64 {
        self.stack.qdisc(self.dev).map_or(0, |qdisc| qdisc.stats.backlog)
    }

    /// What the device's completions are late by, as far as the stack has learnt.
    #[must_use]
    pub fn lateness(&self) -> lowwater_core::base::Duration {
        self.stack.lateness(self.dev).unwrap_or_default()
    }

    /// Gives the device an address.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn add_address(&mut self, now: Instant, ip: IpAddr, prefix: u8) -> Result<(), Error> {
        journaled!(self, now, Input::AddAddress(ip, prefix), self.stack.add_address(self.dev, ip, prefix))
    }

    /// Adds a route over the device.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn add_route(
        &mut self,
        now: Instant,
        to: IpAddr,
        prefix: u8,
        via: Option<IpAddr>,
    ) -> Result<(), Error> {
        journaled!(
            self,
            now,
            Input::AddRoute(to, prefix, via),
            self.stack.add_route(to, prefix, via, self.dev)
        )
    }

    /// Changes a setting.
    ///
    /// # Errors
    /// One sentence about what is wrong.
    pub fn set_sysctl(&mut self, now: Instant, name: &str, value: &str) -> Result<(), String> {
        let input = Input::SetSysctl(name.to_owned(), value.to_owned());
        journaled!(self, now, input, self.stack.set_sysctl(name, value))
    }

    /// Puts another queueing discipline in front of the device.
    ///
    /// # Errors
    /// One sentence about what is wrong.
    pub fn set_qdisc(&mut self, now: Instant, words: &str) -> Result<(), String> {
        let qdisc: Any = words.parse()?;
        let input = Input::SetQdisc(words.to_owned());
        let dev = self.dev;
        journaled!(self, now, input, self.stack.set_qdisc(dev, qdisc).map_err(|e| e.to_string()))
    }

    /// A packet came in.
    pub fn receive(&mut self, now: Instant, packet: Packet) {
        if let Some(r) = &mut self.recorder {
            r.input(now, &Input::Receive(packet.clone()));
        }
        self.stack.receive(now, self.dev, packet);
    }

    /// Processes what was received.
    pub fn flush(&mut self, now: Instant) {
        journaled!(self, now, Input::Flush, self.stack.flush(now));
    }

    /// A packet has left the device.
    pub fn complete(&mut self, now: Instant, owner: Owner) {
        journaled!(self, now, Input::Complete(owner), self.stack.complete(now, self.dev, owner));
    }

    /// The device has room again.
    pub fn device_ready(&mut self, now: Instant) {
        journaled!(self, now, Input::DeviceReady, self.stack.device_ready(now, self.dev));
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        journaled!(self, now, Input::HandleTimeout, self.stack.handle_timeout(now));
    }

    /// When the stack wants to be called.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.stack.next_deadline()
    }

    /// There is something to transmit.
    #[must_use]
    pub fn needs_transmit(&self) -> bool {
        self.stack.needs_transmit(self.dev)
    }

    /// Gives packets to `device`.
    pub fn transmit(&mut self, now: Instant, budget: usize, device: &mut dyn Device) -> Transmitted {
        let Some(mut recorder) = self.recorder.take() else {
            return self.stack.transmit(now, self.dev, budget, device);
        };
        let mut answers = Vec::new();
        let done = self.stack.transmit(now, self.dev, budget, &mut |now, packet: Packet| {
            recorder.packet(&packet);
            let answer = device.submit(now, packet);
            answers.push(match answer {
                Submit::Sent => Answer::Sent,
                Submit::Filled => Answer::Filled,
                Submit::Completed => Answer::Completed,
                Submit::NotNow(_) => Answer::NotNow,
                Submit::Dropped => Answer::Dropped,
            });
            answer
        });
        recorder.input(now, &Input::Transmit(budget, answers));
        recorder.result(&done);
        self.recorder = Some(recorder);
        done
    }

    /// The next event.
    pub fn next_event(&mut self, now: Instant) -> Option<Event> {
        journaled!(self, now, Input::NextEvent, self.stack.next_event())
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// Those of the stack, here and in all calls below.
    pub fn tcp_connect(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        o: &SocketOptions,
    ) -> Result<SocketId, Error> {
        journaled!(self, now, Input::Connect(remote, o.clone()), self.stack.tcp_connect(now, remote, None, o))
    }

    /// Opens a connection with the front of `data` in its SYN; how much of it went along.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn tcp_connect_with_data(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        o: &SocketOptions,
        data: &[u8],
    ) -> Result<(SocketId, usize), Error> {
        let input = || Input::ConnectWith(remote, o.clone(), Bytes::copy_from_slice(data));
        journaled!(self, now, input(), self.stack.tcp_connect_with_data(now, remote, None, o, data))
    }

    /// Listens.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn tcp_listen(&mut self, now: Instant, at: ListenAddr, o: &ListenOptions) -> Result<SocketId, Error> {
        let input = Input::Listen(at.ip, at.port, o.clone());
        journaled!(self, now, input, self.stack.tcp_listen(now, at, o.clone()))
    }

    /// Takes a connection from the backlog.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn tcp_accept(&mut self, now: Instant, id: SocketId) -> Result<(SocketId, SocketAddr), Error> {
        journaled!(self, now, Input::Accept(id), self.stack.tcp_accept(now, id))
    }

    /// Writes by copy.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn tcp_send(
        &mut self,
        now: Instant,
        id: SocketId,
        data: &[u8],
        flags: SendFlags,
    ) -> Result<usize, Error> {
        let input = || Input::Send(id, Bytes::copy_from_slice(data), flags.more, flags.oob);
        journaled!(self, now, input(), self.stack.tcp_send(now, id, data, flags))
    }

    /// Writes owned bytes; takes what fits off their front.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn tcp_send_bytes(
        &mut self,
        now: Instant,
        id: SocketId,
        data: &mut Bytes,
        flags: SendFlags,
    ) -> Result<usize, Error> {
        let input = || Input::SendBytes(id, data.clone(), flags.more, flags.oob);
        journaled!(self, now, input(), self.stack.tcp_send_bytes(now, id, data, flags))
    }

    /// Reads by copy; 0 at the end of the stream.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn tcp_recv(&mut self, now: Instant, id: SocketId, buffer: &mut [u8]) -> Result<usize, Error> {
        let result =
            journaled!(self, now, Input::Recv(id, buffer.len()), self.stack.tcp_recv(now, id, buffer, false));
        if let (Some(r), Ok(n)) = (&mut self.recorder, result) {
            r.data(&buffer[..n]);
        }
        result
    }

    /// Reads without copy; `None` at the end of the stream.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn tcp_read_chunk(&mut self, now: Instant, id: SocketId, max: usize) -> Result<Option<Bytes>, Error> {
        journaled!(self, now, Input::ReadChunk(id, max), self.stack.tcp_read_chunk(now, id, max))
    }

    /// Closes one or both directions.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn shutdown(&mut self, now: Instant, id: SocketId, how: How) -> Result<(), Error> {
        journaled!(self, now, Input::Shutdown(id, how), self.stack.shutdown(now, id, how))
    }

    /// Gives a socket up; a connection closes in the background.
    pub fn close(&mut self, now: Instant, id: SocketId) {
        let _ = journaled!(self, now, Input::Close(id), self.stack.close(now, id));
    }

    /// Resets a connection.
    pub fn abort(&mut self, now: Instant, id: SocketId) {
        let _ = journaled!(self, now, Input::Abort(id), self.stack.abort(now, id));
    }

    /// The error that waits on a socket.
    pub fn take_error(&mut self, now: Instant, id: SocketId) -> Option<Error> {
        journaled!(self, now, Input::TakeError(id), self.stack.take_error(id))
    }

    /// TCP_INFO as of the last event, which is no input.
    pub fn tcp_info(&mut self, id: SocketId) -> Option<TcpInfo> {
        self.stack.tcp_info(self.stack.now(), id).ok()
    }

    /// Binds a UDP socket.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn udp_bind(&mut self, now: Instant, local: SocketAddr) -> Result<SocketId, Error> {
        journaled!(self, now, Input::UdpBind(local), self.stack.udp_bind(now, local))
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn udp_send_to(
        &mut self,
        now: Instant,
        id: SocketId,
        data: Bytes,
        to: SocketAddr,
    ) -> Result<usize, Error> {
        journaled!(
            self,
            now,
            Input::UdpSendTo(id, data.clone(), to),
            self.stack.udp_send_to(now, id, data, to)
        )
    }

    /// Takes a datagram.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn udp_recv_from(&mut self, now: Instant, id: SocketId) -> Result<(Bytes, SocketAddr), Error> {
        journaled!(self, now, Input::UdpRecvFrom(id), self.stack.udp_recv_from(now, id))
    }

    /// Makes the call that a journal holds.
    pub fn apply(&mut self, now: Instant, input: Input) {
        let flags = |more, oob| SendFlags { more, oob, ..SendFlags::default() };
        match input {
            Input::AddDevice(caps) => self.add_device(now, caps),
            Input::AddAddress(ip, prefix) => drop(self.add_address(now, ip, prefix)),
            Input::AddRoute(to, prefix, via) => drop(self.add_route(now, to, prefix, via)),
            Input::SetSysctl(name, value) => drop(self.set_sysctl(now, &name, &value)),
            Input::SetQdisc(words) => drop(self.set_qdisc(now, &words)),
            Input::Receive(packet) => self.receive(now, packet),
            Input::Flush => self.flush(now),
            Input::Complete(owner) => self.complete(now, owner),
            Input::DeviceReady => self.device_ready(now),
            Input::HandleTimeout => self.handle_timeout(now),
            Input::Transmit(budget, answers) => {
                let mut answers = answers.into_iter();
                self.transmit(now, budget, &mut |_, packet| match answers.next() {
                    Some(Answer::Sent) => Submit::Sent,
                    Some(Answer::Filled) => Submit::Filled,
                    Some(Answer::Completed) => Submit::Completed,
                    Some(Answer::Dropped) => Submit::Dropped,
                    Some(Answer::NotNow) | None => Submit::NotNow(packet),
                });
            }
            Input::NextEvent => drop(self.next_event(now)),
            Input::Connect(remote, o) => drop(self.tcp_connect(now, remote, &o)),
            Input::ConnectWith(remote, o, data) => {
                let _ = self.tcp_connect_with_data(now, remote, &o, &data);
            }
            Input::Listen(ip, port, o) => drop(self.tcp_listen(now, ListenAddr { ip, port }, &o)),
            Input::Accept(id) => drop(self.tcp_accept(now, id)),
            Input::Send(id, data, m, o) => drop(self.tcp_send(now, id, &data, flags(m, o))),
            Input::SendBytes(id, mut data, m, o) => {
                let _ = self.tcp_send_bytes(now, id, &mut data, flags(m, o));
            }
            Input::Recv(id, n) => drop(self.tcp_recv(now, id, &mut vec![0; n])),
            Input::ReadChunk(id, n) => drop(self.tcp_read_chunk(now, id, n)),
            Input::Shutdown(id, how) => drop(self.shutdown(now, id, how)),
            Input::Close(id) => self.close(now, id),
            Input::Abort(id) => self.abort(now, id),
            Input::TakeError(id) => drop(self.take_error(now, id)),
            Input::UdpBind(local) => drop(self.udp_bind(now, local)),
            Input::UdpSendTo(id, data, to) => drop(self.udp_send_to(now, id, data, to)),
            Input::UdpRecvFrom(id) => drop(self.udp_recv_from(now, id)),
        }
    }
}
