//! A TCP connection from SYN-SENT to its end (stand-in until the state machine lands).
#![allow(missing_docs, unused_variables, clippy::needless_pass_by_value, reason = "stand-in")]
use super::*;
use crate::base::{Cx, Error, Instant};
use bytes::Bytes;

#[derive(Debug)]
pub struct Conn {
    tuple: Tuple,
    options: SocketOptions,
}

impl Conn {
    pub fn connect(cx: &mut Cx<'_>, setup: Setup) -> Self {
        Self { tuple: setup.tuple, options: setup.options }
    }
    pub(super) fn accept(cx: &mut Cx<'_>, from: super::request::Accepted) -> Self {
        Self { tuple: from.setup.tuple, options: from.setup.options }
    }
    pub fn input(&mut self, cx: &mut Cx<'_>, seg: Segment) -> Disposition {
        Disposition::Done
    }
    pub fn output(&mut self, cx: &mut Cx<'_>, caps: &PathCaps) -> Option<Outgoing> {
        None
    }
    pub fn wants_output(&self) -> bool {
        false
    }
    pub fn on_timeout(&mut self, cx: &mut Cx<'_>) {}
    pub fn next_deadline(&self) -> Option<Instant> {
        None
    }
    pub fn on_complete(&mut self, cx: &mut Cx<'_>, charge: u32) {}
    pub fn on_dropped(&mut self, cx: &mut Cx<'_>, charge: u32) {}
    pub fn on_icmp(&mut self, cx: &mut Cx<'_>, error: Error, seq: Option<Seq>) {}
    pub fn on_pmtu(&mut self, cx: &mut Cx<'_>, mtu: u16, seq: Option<Seq>) {}
    pub fn send(&mut self, cx: &mut Cx<'_>, data: &[u8], flags: SendFlags) -> Result<usize, Error> {
        Err(Error::WouldBlock)
    }
    pub fn send_bytes(
        &mut self,
        cx: &mut Cx<'_>,
        data: &mut Bytes,
        flags: SendFlags,
    ) -> Result<usize, Error> {
        Err(Error::WouldBlock)
    }
    pub fn recv(&mut self, cx: &mut Cx<'_>, buf: &mut [u8], peek: bool) -> Result<usize, Error> {
        Err(Error::WouldBlock)
    }
    pub fn read_chunk(&mut self, cx: &mut Cx<'_>, max: usize) -> Result<Option<Bytes>, Error> {
        Err(Error::WouldBlock)
    }
    pub fn shutdown(&mut self, cx: &mut Cx<'_>, how: How) -> Result<(), Error> {
        Ok(())
    }
    pub fn close(&mut self, cx: &mut Cx<'_>) {}
    pub fn abort(&mut self, cx: &mut Cx<'_>) {}
    pub fn poll(&mut self, cx: &Cx<'_>) -> Ready {
        Ready::NONE
    }
    pub fn take_notice(&mut self) -> Notice {
        Notice::NONE
    }
    pub fn take_error(&mut self) -> Option<Error> {
        None
    }
    pub fn options(&self) -> &SocketOptions {
        &self.options
    }
    pub fn set_options(&mut self, cx: &mut Cx<'_>, options: SocketOptions) {
        self.options = options;
    }
    pub fn state(&self) -> State {
        State::Close
    }
    pub fn tuple(&self) -> &Tuple {
        &self.tuple
    }
    pub fn info(&self, cx: &Cx<'_>) -> TcpInfo {
        TcpInfo::default()
    }
    pub fn fate(&self) -> Fate {
        Fate::Alive
    }
    pub fn into_time_wait(self, cx: &mut Cx<'_>) -> TimeWait {
        unreachable!("stand-in")
    }
}
