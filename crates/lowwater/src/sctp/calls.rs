//! What every handle on an association can ask and set, under RFC 6458's options.

/// Gives a type the calls that concern an association as a whole. It has `call`, which calls the core with the name of it.
macro_rules! association_calls {
    () => {
        /// State, streams, windows and, for each address of the peer, the path to it. (SCTP_STATUS, SCTP_GET_PEER_ADDR_INFO)
        ///
        /// # Errors
        /// When the stack was shut down.
        pub fn info(&self) -> std::io::Result<lowwater_core::sctp::AssocInfo> {
            self.call(|core, _, id| core.sctp_info(id))
        }

        /// How many messages were given up by each policy, of all streams or of one. (SCTP_PR_ASSOC_STATUS, SCTP_PR_STREAM_STATUS)
        ///
        /// # Errors
        /// When the stack was shut down.
        pub fn abandoned(
            &self,
            stream: Option<u16>,
        ) -> std::io::Result<lowwater_core::sctp::AbandonedCounts> {
            self.call(|core, _, id| core.sctp_abandoned(id, stream))
        }

        /// Its state.
        ///
        /// # Errors
        /// When the stack was shut down.
        pub fn state(&self) -> std::io::Result<lowwater_core::sctp::State> {
            self.call(|core, _, id| core.sctp_state(id))
        }

        /// Our address on the primary path.
        ///
        /// # Errors
        /// When the stack was shut down.
        pub fn local_addr(&self) -> std::io::Result<std::net::SocketAddr> {
            self.call(|core, _, id| core.local_addr(id))
        }

        /// The peer's primary address.
        ///
        /// # Errors
        /// When the stack was shut down.
        pub fn peer_addr(&self) -> std::io::Result<std::net::SocketAddr> {
            self.call(|core, _, id| core.peer_addr(id))
        }

        /// All addresses that the peer was told of. (SCTP_GET_LOCAL_ADDRS)
        ///
        /// # Errors
        /// When the stack was shut down.
        pub fn local_addrs(&self) -> std::io::Result<Vec<std::net::SocketAddr>> {
            self.call(|core, _, id| core.sctp_addrs(id).map(|(ours, _)| ours))
        }

        /// All addresses of the peer. (SCTP_GET_PEER_ADDRS)
        ///
        /// # Errors
        /// When the stack was shut down.
        pub fn peer_addrs(&self) -> std::io::Result<Vec<std::net::SocketAddr>> {
            self.call(|core, _, id| core.sctp_addrs(id).map(|(_, theirs)| theirs))
        }

        /// The options.
        ///
        /// # Errors
        /// When the stack was shut down.
        pub fn options(&self) -> std::io::Result<lowwater_core::sctp::SctpOptions> {
            self.call(|core, _, id| core.sctp_options(id).cloned())
        }

        /// Changes options; those of paths reach all paths that there are.
        ///
        /// # Errors
        /// When the stack was shut down; [`std::io::ErrorKind::InvalidInput`] for options that no association could work with.
        pub fn set_options(
            &self,
            change: impl FnOnce(&mut lowwater_core::sctp::SctpOptions),
        ) -> std::io::Result<()> {
            use crate::error::io_error;
            let seen = self.options()?;
            let mut asked = seen.clone();
            change(&mut asked);
            self.call(|core, now, id| {
                let was = core.sctp_options(id).map_err(io_error)?;
                let changed = crate::options::changed_sctp(&seen, &asked, was);
                let options = crate::options::sctp(changed, was)?;
                core.sctp_set_options(now, id, options).map_err(io_error)
            })
        }

        /// Changes one path: its heartbeats, and how many errors it is allowed. A changed interval takes effect at once.
        /// (SCTP_PEER_ADDR_PARAMS, SCTP_PEER_ADDR_THLDS)
        ///
        /// # Errors
        /// [`std::io::ErrorKind::InvalidInput`] when the peer has no such address.
        pub fn set_path(
            &self,
            peer: std::net::IpAddr,
            change: impl FnOnce(&mut lowwater_core::sctp::PathOptions),
        ) -> std::io::Result<()> {
            use lowwater_core::{base::SocketId, stack::Stack};
            let peer = peer.to_canonical();
            let of = |core: &mut Stack, id: SocketId| {
                let options = core.sctp_path_options(id, peer);
                options.map_err(|e| crate::sctp::why::peer(core, id, e, peer))
            };
            let seen = self.call(|core, _, id| of(core, id))?;
            let mut asked = seen;
            change(&mut asked);
            self.call(|core, now, id| {
                let was = of(core, id)?;
                let options = crate::options::changed_path(&seen, &asked, &was);
                crate::options::path(&options, &was)?;
                core.sctp_set_path(now, id, peer, options).map_err(crate::error::io_error)
            })
        }

        /// Makes an address of the peer's the one that data goes to. (SCTP_PRIMARY_ADDR)
        ///
        /// # Errors
        /// [`std::io::ErrorKind::InvalidInput`] when the peer has no such address, or has not confirmed it.
        pub fn set_primary(&self, peer: std::net::IpAddr) -> std::io::Result<()> {
            let peer = peer.to_canonical();
            self.call(|core, now, id| {
                let set = core.sctp_set_primary(now, id, peer);
                set.map_err(|e| crate::sctp::why::peer(core, id, e, peer))
            })
        }

        /// Asks an address of the peer's for an answer now. (SPP_HB_DEMAND)
        ///
        /// # Errors
        /// [`std::io::ErrorKind::InvalidInput`] when the peer has no such address.
        pub fn heartbeat(&self, peer: std::net::IpAddr) -> std::io::Result<()> {
            let peer = peer.to_canonical();
            self.call(|core, now, id| {
                let asked = core.sctp_heartbeat(now, id, peer);
                asked.map_err(|e| crate::sctp::why::peer(core, id, e, peer))
            })
        }

        /// Has the numbers of messages begin anew in these streams, or in all if none are named: in those that we send on (`outgoing`), in
        /// those that the peer does (`incoming`), or in both. What becomes of it is told by
        /// [`Notification::StreamReset`](lowwater_core::sctp::Notification::StreamReset); nothing is sent on such streams of ours
        /// meanwhile. Both sides offer RE-CONFIG for it (`Features::RECONF` in the options, sysctl `sctp.reconf_enable`), and both allow it
        /// (`SctpOptions::reconfigurable`). (SCTP_RESET_STREAMS)
        ///
        /// # Errors
        /// ENOPROTOOPT where one side does not offer it or ours does not allow it, EINPROGRESS while another request is out,
        /// [`std::io::ErrorKind::WouldBlock`] while something of these streams is unsent, [`std::io::ErrorKind::InvalidInput`] for a
        /// stream that does not exist, EMSGSIZE for more of them than a packet can name; all in a sentence, with
        /// [`Explained::errno`](crate::sctp::Explained::errno).
        pub fn reset_streams(&self, streams: &[u16], outgoing: bool, incoming: bool) -> std::io::Result<()> {
            use crate::sctp::why;
            const INVALID: &str = "name streams that there are, and a direction, outgoing or incoming: info() tells how many each has";
            self.call(|core, now, id| {
                let asked = core.sctp_reset_streams(now, id, streams, (outgoing, incoming));
                asked.map_err(|e| why::reconfiguration(core, id, e, why::STREAMS, INVALID))
            })
        }

        /// Has all numbers begin anew, TSNs too; told by
        /// [`Notification::AssocReset`](lowwater_core::sctp::Notification::AssocReset). (SCTP_RESET_ASSOC)
        ///
        /// # Errors
        /// Those of `reset_streams`; [`std::io::ErrorKind::WouldBlock`] while something is unsent or not acknowledged.
        pub fn reset_association(&self) -> std::io::Result<()> {
            use crate::sctp::why;
            self.call(|core, now, id| {
                let asked = core.sctp_reset_association(now, id);
                asked.map_err(|e| why::reconfiguration(core, id, e, why::ASSOCIATION, ""))
            })
        }

        /// Adds streams that we send on, and such that the peer does; told by
        /// [`Notification::StreamChange`](lowwater_core::sctp::Notification::StreamChange). (SCTP_ADD_STREAMS)
        ///
        /// # Errors
        /// Those of `reset_streams`; [`std::io::ErrorKind::InvalidInput`] for none, and for more than 65,535 in all.
        pub fn add_streams(&self, outgoing: u16, incoming: u16) -> std::io::Result<()> {
            use crate::sctp::why;
            const INVALID: &str = "add one stream at least, and no more than make 65,535 in a direction: info() tells how many each has";
            self.call(|core, now, id| {
                let asked = core.sctp_add_streams(now, id, outgoing, incoming);
                asked.map_err(|e| why::reconfiguration(core, id, e, why::COUNT, INVALID))
            })
        }

        /// Closes in good order: what was queued is delivered, then the association ends. Nothing more can be sent; what comes
        /// can be read to the end.
        ///
        /// # Errors
        /// When the stack was shut down.
        pub fn shutdown(&self) -> std::io::Result<()> {
            self.call(|core, now, id| core.sctp_shutdown(now, id))
        }

        /// Ends it at once and tells the peer why (SCTP_ABORT). What was not delivered is lost.
        ///
        /// # Errors
        /// When the stack was shut down.
        pub fn abort(&self, reason: &[u8]) -> std::io::Result<()> {
            self.call(|core, now, id| core.sctp_abort(now, id, reason))
        }

        /// The pending error, once. (SO_ERROR)
        ///
        /// # Errors
        /// When the stack was shut down.
        pub fn take_error(&self) -> std::io::Result<Option<std::io::Error>> {
            self.call(|core, _, id| std::io::Result::Ok(core.take_error(id).map(crate::error::io_error)))
        }
    };
}
pub(crate) use association_calls;
