//! What the application of a script calls on the stack's socket, with every byte checked.
use super::{Peer, pattern};
use lowwater_core::base::Error;
use lowwater_core::tcp::{How, SendFlags, State, TcpInfo};

impl Peer {
    /// Writes `n` bytes, all of which must find room.
    #[track_caller]
    pub fn write(&mut self, n: usize) {
        assert_eq!(self.try_write(n, SendFlags::default()), Ok(n), "{}", self.log());
    }

    #[track_caller]
    pub fn write_more(&mut self, n: usize) {
        let flags = SendFlags { more: true, ..SendFlags::default() };
        assert_eq!(self.try_write(n, flags), Ok(n), "{}", self.log());
    }

    pub fn try_write(&mut self, n: usize, flags: SendFlags) -> Result<usize, Error> {
        let done = self.write_before_turn(n, flags);
        self.pump();
        done
    }

    /// Writes, and nothing is transmitted yet.
    pub fn write_before_turn(&mut self, n: usize, flags: SendFlags) -> Result<usize, Error> {
        let data: Vec<u8> = (0..n as u64).map(|i| pattern(self.written + i)).collect();
        self.journal.push(format!("{:>12}   write {n}", self.stamp()));
        let done = self.stack.tcp_send(self.now, self.sock, &data, flags);
        self.written += done.unwrap_or(0) as u64;
        done
    }

    /// Reads up to `n` bytes and checks each.
    pub fn try_read(&mut self, n: usize) -> Result<usize, Error> {
        let mut buf = vec![0; n];
        let done = self.stack.tcp_recv(self.now, self.sock, &mut buf, false);
        self.journal.push(format!("{:>12}   read {n}: {done:?}", self.stamp()));
        for &byte in &buf[..done.unwrap_or(0)] {
            assert_eq!(byte, pattern(self.read), "byte {} of what was read", self.read);
            self.read += 1;
        }
        self.pump();
        done
    }

    #[track_caller]
    pub fn read(&mut self, n: usize) {
        assert_eq!(self.try_read(n), Ok(n), "{}", self.log());
    }

    /// The peer sends 16 segments of 1,000 bytes, which ends the time of quick acknowledgements; all is read. The next byte
    /// of the peer is 16,001.
    pub fn end_quick_acks(&mut self, ack: u32) {
        for i in 0..16 {
            self.inject(&format!(". {}:{} ack {ack}", i * 1_000 + 1, i * 1_000 + 1_001));
            self.expect(&format!(". {ack} ack {}", i * 1_000 + 1_001));
            self.read(1_000);
        }
    }

    pub fn set_rcvlowat(&mut self, bytes: u32) {
        self.stack.tcp_set_rcvlowat(self.now, self.sock, bytes).unwrap();
        self.pump();
    }

    pub fn close(&mut self) {
        self.journal.push(format!("{:>12}   close", self.stamp()));
        self.stack.close(self.now, self.sock).unwrap();
        self.pump();
    }

    pub fn abort(&mut self) {
        self.stack.abort(self.now, self.sock).unwrap();
        self.pump();
    }

    pub fn shutdown(&mut self, how: How) {
        self.journal.push(format!("{:>12}   shutdown {how:?}", self.stamp()));
        self.stack.shutdown(self.now, self.sock, how).unwrap();
        self.pump();
    }

    pub fn state(&self) -> State {
        self.stack.tcp_state(self.sock).unwrap()
    }

    pub fn info(&mut self) -> TcpInfo {
        self.stack.tcp_info(self.now, self.sock).unwrap()
    }

    pub fn error(&mut self) -> Option<Error> {
        self.stack.take_error(self.sock)
    }

    /// Sockets of every kind, small objects included.
    pub fn sockets(&self) -> usize {
        self.stack.open_sockets()
    }
}
