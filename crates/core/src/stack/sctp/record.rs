//! The flight recorder's notes of chunks that come and go. While it is off they cost a branch for each packet.
use crate::base::SocketId;
use crate::base::trace::Ev;
use crate::sctp::{Outgoing, PathId};
use crate::stack::Stack;
use crate::stack::sctp::input::Arrived;
use lowwater_wire::sctp::{Chunk, Chunks, HEADER_LEN, chunk_kind};

impl Stack {
    /// A good packet came.
    pub(super) fn sctp_record_in(&mut self, arrived: &Arrived<'_>) {
        if !self.env.trace.is_on() {
            return;
        }
        let id = self.sctp_flow(arrived.tuple.local(), arrived.tuple.remote());
        let path = id.and_then(|id| self.assoc(id).ok()?.paths().find(arrived.inbound.from));
        self.record_chunks(id, arrived.inbound.chunks, path.unwrap_or(0), Ev::ChunkIn);
    }

    /// Packets of an association leave.
    pub(super) fn sctp_record_out(&mut self, id: SocketId, out: &Outgoing) {
        if !self.env.trace.is_on() {
            return;
        }
        for packet in out.bytes.chunks(out.unit.max(1)) {
            let chunks = packet.get(HEADER_LEN..).unwrap_or_default();
            self.record_chunks(Some(id), chunks, out.path, Ev::ChunkOut);
        }
    }

    /// An answer leaves that no association gives.
    pub(super) fn sctp_record_answer(&mut self, chunks: &[u8]) {
        if self.env.trace.is_on() {
            self.record_chunks(None, chunks, 0, Ev::ChunkOut);
        }
    }

    fn record_chunks(
        &mut self,
        id: Option<SocketId>,
        chunks: &[u8],
        path: PathId,
        note: fn(&'static str, Option<u32>, u8) -> Ev,
    ) {
        for raw in Chunks::new(chunks).map_while(Result::ok) {
            let tsn = Chunk::parse(&raw).ok().and_then(|chunk| tsn_of(&chunk));
            self.env.trace.record(self.now, id, note(name(raw.kind()), tsn, path));
        }
    }
}

/// The TSN that a chunk has or names.
fn tsn_of(chunk: &Chunk<'_>) -> Option<u32> {
    match chunk {
        Chunk::Data(data, _) => Some(data.tsn),
        Chunk::Init(init) | Chunk::InitAck(init) => Some(init.initial_tsn),
        Chunk::Sack(sack) => Some(sack.cum_tsn),
        Chunk::Shutdown(tsn) | Chunk::Ecne(tsn) | Chunk::Cwr(tsn) | Chunk::ForwardTsn(tsn, _) => Some(*tsn),
        _ => None,
    }
}

/// The type as scripts write it.
const fn name(kind: u8) -> &'static str {
    match kind {
        chunk_kind::DATA => "DATA",
        chunk_kind::INIT => "INIT",
        chunk_kind::INIT_ACK => "INIT_ACK",
        chunk_kind::SACK => "SACK",
        chunk_kind::HEARTBEAT => "HEARTBEAT",
        chunk_kind::HEARTBEAT_ACK => "HEARTBEAT_ACK",
        chunk_kind::ABORT => "ABORT",
        chunk_kind::SHUTDOWN => "SHUTDOWN",
        chunk_kind::SHUTDOWN_ACK => "SHUTDOWN_ACK",
        chunk_kind::ERROR => "ERROR",
        chunk_kind::COOKIE_ECHO => "COOKIE_ECHO",
        chunk_kind::COOKIE_ACK => "COOKIE_ACK",
        chunk_kind::ECNE => "ECNE",
        chunk_kind::CWR => "CWR",
        chunk_kind::SHUTDOWN_COMPLETE => "SHUTDOWN_COMPLETE",
        chunk_kind::RE_CONFIG => "RECONFIG",
        chunk_kind::PAD => "PAD",
        chunk_kind::FORWARD_TSN => "FORWARD_TSN",
        _ => "CHUNK",
    }
}
