//! What an independent dissector says about every kind of SCTP chunk, parameter and cause that this crate writes.
#![forbid(unsafe_code)]
use lowwater_wire::ipv4::{self, Ipv4Repr};
use lowwater_wire::pcapng::{Block, Direction, LINKTYPE_RAW, PacketBlock};
use lowwater_wire::protocol;
use lowwater_wire::sctp::{
    Builder, Cause, Chunk, Chunks, DataFlags, DataRepr, ForwardStream, GapBlock, IDataRepr, IForwardStream,
    Init, Param, Reset, Sack, SctpRepr, Tlvs,
};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use zerocopy::network_endian::{U16, U32};

/// What no capture may hold.
const BAD: &str = "_ws.malformed || sctp.checksum.status == Bad || sctp.parameter_length.bad || \
                   sctp.chunk_length.bad || sctp.parameter_padding.expert || sctp.sack_gap_block_malformed || \
                   sctp.sack_gap_block_out_of_order";

/// A chunk, what is appended to it, and what the dissector must find in the packet.
struct Case {
    chunk: Chunk<'static>,
    params: Vec<Param<'static>>,
    causes: Vec<Cause<'static>>,
    fields: Vec<(&'static str, &'static str)>,
}

fn case(chunk: Chunk<'static>, fields: &[(&'static str, &'static str)]) -> Case {
    Case { chunk, params: Vec::new(), causes: Vec::new(), fields: fields.to_vec() }
}

const INIT: Init<'static> = Init {
    initiate_tag: 0x0a0b_0c0d,
    a_rwnd: 131_072,
    outbound_streams: 10,
    inbound_streams: 65_535,
    initial_tsn: 1_000_000,
    params: Tlvs::EMPTY,
};

fn setup() -> Vec<Case> {
    let streams: &[U16] = &const { [U16::new(5), U16::new(6)] };
    let params = vec![
        Param::Ipv4(Ipv4Addr::new(10, 1, 2, 3)),
        Param::Ipv6(Ipv6Addr::LOCALHOST),
        Param::CookiePreservative(999),
        Param::SupportedAddressTypes(streams),
        Param::EcnCapable,
        Param::ForwardTsnSupported,
        Param::Random(&[7; 32]),
        Param::ChunkList(&[192, 193, 194]),
        Param::HmacAlgorithms(&const { [U16::new(1), U16::new(3)] }),
        Param::SupportedExtensions(&[64, 130, 192]),
        Param::Adaptation(0x55),
    ];
    let init = Case {
        params,
        ..case(
            Chunk::Init(INIT),
            &[
                ("sctp.init_initiate_tag", "0x0a0b0c0d"),
                ("sctp.init_credit", "131072"),
                ("sctp.init_nr_out_streams", "10"),
                ("sctp.init_nr_in_streams", "65535"),
                ("sctp.init_initial_tsn", "1000000"),
                ("sctp.parameter_ipv4_address", "10.1.2.3"),
                ("sctp.parameter_ipv6_address", "::1"),
                ("sctp.parameter_cookie_preservative_incr", "999"),
                ("sctp.parameter_supported_address_type", "5,6"),
                ("sctp.hmac_id", "1,3"),
                ("sctp.chunk_type_to_auth", "192,193,194"),
                ("sctp.supported_chunk_type", "64,130,192"),
                ("sctp.adaptation_layer_indication", "0x00000055"),
            ],
        )
    };
    let cookie = [Param::StateCookie(b"cook"), Param::Unrecognized(&[0xc1, 0, 0, 8, 1, 2, 3, 4])];
    let init_ack = Case {
        params: cookie.to_vec(),
        ..case(
            Chunk::InitAck(INIT),
            &[("sctp.initack_initial_tsn", "1000000"), ("sctp.parameter_state_cookie", "636f6f6b")],
        )
    };
    vec![
        init,
        init_ack,
        case(Chunk::CookieEcho(b"cookie"), &[("sctp.cookie", "636f6f6b6965")]),
        case(Chunk::CookieAck, &[("sctp.chunk_type", "11"), ("sctp.chunk_length", "4")]),
    ]
}

fn transfer() -> Vec<Case> {
    let data = DataRepr {
        flags: DataFlags::WHOLE | DataFlags::UNORDERED | DataFlags::IMMEDIATE,
        tsn: 77,
        sid: 3,
        ssn: 9,
        ppid: 4_000_000_000,
    };
    let i_data = IDataRepr { flags: DataFlags::END, tsn: 78, sid: 3, mid: 70_000, ppid_fsn: 12 };
    let gaps: &[GapBlock] = &const { [GapBlock::new(2, 3), GapBlock::new(5, 9)] };
    let dups: &[U32] = &const { [U32::new(100), U32::new(u32::MAX)] };
    vec![
        case(
            Chunk::Data(data, b"hello"),
            &[
                ("sctp.chunk_length", "21"),
                ("sctp.data_tsn_raw", "77"),
                ("sctp.data_sid", "0x0003"),
                ("sctp.data_ssn", "9"),
                ("sctp.data_payload_proto_id", "4000000000"),
                ("sctp.data_b_bit", "1"),
                ("sctp.data_e_bit", "1"),
                ("sctp.data_u_bit", "1"),
                ("sctp.data_i_bit", "1"),
            ],
        ),
        case(
            Chunk::IData(i_data, b"interleaved"),
            &[
                ("sctp.data_tsn_raw", "78"),
                ("sctp.data_mid", "70000"),
                ("sctp.data_fsn", "12"),
                ("sctp.data_b_bit", "0"),
            ],
        ),
        case(
            Chunk::Sack(Sack { cum_tsn: 90, a_rwnd: 5_000, gaps, dups }),
            &[
                ("sctp.sack_cumulative_tsn_ack_raw", "90"),
                ("sctp.sack_a_rwnd", "5000"),
                ("sctp.sack_gap_block_start", "2,5"),
                ("sctp.sack_gap_block_end", "3,9"),
                ("sctp.sack_duplicate_tsn", "100,4294967295"),
            ],
        ),
        case(
            Chunk::ForwardTsn(91, &const { [ForwardStream::new(1, 2), ForwardStream::new(3, 4)] }),
            &[
                ("sctp.forward_tsn_tsn", "91"),
                ("sctp.forward_tsn_sid", "1,3"),
                ("sctp.forward_tsn_ssn", "2,4"),
            ],
        ),
        case(
            Chunk::IForwardTsn(92, &const { [IForwardStream::new(1, true, 66_000)] }),
            &[
                ("sctp.i_forward_tsn_tsn", "92"),
                ("sctp.i_forward_tsn_sid", "1"),
                ("sctp.forward_tsn_mid", "66000"),
            ],
        ),
        case(Chunk::Ecne(93), &[("sctp.ecne_lowest_tsn", "93")]),
        case(Chunk::Cwr(94), &[("sctp.cwr_lowest_tsn", "94")]),
    ]
}

/// Of the parameters and causes that stand in chunks as bytes already.
fn raw(param: &Param<'_>) -> Tlvs<'static> {
    let mut bytes = vec![0; param.buffer_len()];
    param.emit(&mut bytes);
    Tlvs::new(bytes.leak())
}

fn control() -> Vec<Case> {
    let info = |chunk| Case {
        params: vec![Param::HeartbeatInfo(b"nonce")],
        ..case(chunk, &[("sctp.parameter_heartbeat_information", "6e6f6e6365"), ("sctp.chunk_length", "13")])
    };
    let other = Chunks::new(&[0x3f, 1, 0, 6, 1, 2, 0, 0]).next().and_then(Result::ok).map(Chunk::Other);
    vec![
        info(Chunk::Heartbeat(Tlvs::EMPTY)),
        info(Chunk::HeartbeatAck(Tlvs::EMPTY)),
        case(Chunk::Shutdown(55), &[("sctp.shutdown_cumulative_tsn_ack", "55")]),
        case(Chunk::ShutdownAck, &[("sctp.chunk_type", "8")]),
        case(Chunk::ShutdownComplete(true), &[("sctp.shutdown_complete_t_bit", "1")]),
        case(Chunk::Pad(&[0; 9]), &[("sctp.chunk_type", "132"), ("sctp.chunk_length", "13")]),
        case(
            Chunk::Auth { key: 1, algorithm: 3, hmac: &[9; 32] },
            &[("sctp.hmac_id", "3"), ("sctp.chunk_length", "40")],
        ),
        Case {
            params: vec![Param::AddIp(1, raw(&Param::Ipv4(Ipv4Addr::new(10, 9, 9, 9))))],
            ..case(
                Chunk::Asconf(8, raw(&Param::Ipv4(Ipv4Addr::new(10, 1, 1, 1)))),
                &[
                    ("sctp.asconf_seq_nr_number", "0x00000008"),
                    ("sctp.parameter_ipv4_address", "10.1.1.1,10.9.9.9"),
                ],
            )
        },
        Case {
            params: vec![Param::Success(1)],
            ..case(Chunk::AsconfAck(8, Tlvs::EMPTY), &[("sctp.asconf_ack_seq_nr_number", "0x00000008")])
        },
        case(other.unwrap(), &[("sctp.chunk_type", "63"), ("sctp.chunk_value", "0102")]),
    ]
}

fn reconfig() -> Vec<Case> {
    let reset = const { Reset { request: U32::new(1), response: U32::new(2), last_tsn: U32::new(3) } };
    let reset: &'static Reset = Box::leak(Box::new(reset));
    let streams: &[U16] = &const { [U16::new(5), U16::new(6), U16::new(7)] };
    vec![
        Case {
            params: vec![Param::OutgoingReset(reset, streams), Param::IncomingReset(4, streams)],
            ..case(
                Chunk::ReConfig(Tlvs::EMPTY),
                &[
                    ("sctp.parameter_reconfig_request_sequence_number", "1,4"),
                    ("sctp.parameter_senders_last_assigned_tsn", "3"),
                    ("sctp.parameter_reconfig_sid", "5,6,7,5,6,7"),
                ],
            )
        },
        Case {
            params: vec![Param::ResetResponse(1, 6, Some((10, 20)))],
            ..case(
                Chunk::ReConfig(Tlvs::EMPTY),
                &[("sctp.parameter_senders_next_tsn", "10"), ("sctp.parameter_receivers_next_tsn", "20")],
            )
        },
        Case {
            params: vec![Param::AddOutgoing(1, 12), Param::AddIncoming(2, 13)],
            ..case(
                Chunk::ReConfig(Tlvs::EMPTY),
                &[
                    ("sctp.parameter_add_outgoing_streams_number", "12"),
                    ("sctp.parameter_add_incoming_streams_number", "13"),
                ],
            )
        },
        Case {
            params: vec![Param::TsnReset(9)],
            ..case(Chunk::ReConfig(Tlvs::EMPTY), &[("sctp.parameter_type", "0x000f")])
        },
    ]
}

fn errors() -> Vec<Case> {
    let causes = vec![
        Cause::InvalidStream(17),
        Cause::MissingParams(&const { [U16::new(7)] }),
        Cause::StaleCookie(12_345),
        Cause::OutOfResource,
        Cause::UnresolvableAddress(&[0, 11, 0, 6, b'a', 0]),
        Cause::UnrecognizedChunk(&[0xfe, 0, 0, 4]),
        Cause::InvalidMandatory,
        Cause::UnrecognizedParams(Tlvs::new(&[0xc1, 0, 0, 8, 1, 2, 3, 4])),
        Cause::NoUserData(4_711),
        Cause::CookieInShutdown,
        Cause::Restart(raw(&Param::Ipv4(Ipv4Addr::new(10, 3, 3, 3)))),
        Cause::ProtocolViolation(b"why not"),
    ];
    let fields = [
        (
            "sctp.cause_code",
            "0x0001,0x0002,0x0003,0x0004,0x0005,0x0006,0x0007,0x0008,0x0009,0x000a,0x000b,0x000d",
        ),
        ("sctp.cause_stream_identifier", "17"),
        ("sctp.cause_missing_parameter_type", "0x0007"),
        ("sctp.cause_measure_of_staleness", "12345"),
        ("sctp.cause_tsn", "4711"),
    ];
    let abort = vec![Cause::UserAbort(b"enough")];
    vec![
        Case { causes, ..case(Chunk::Error(Tlvs::EMPTY), &fields) },
        Case { causes: abort, ..case(Chunk::Abort(true, Tlvs::EMPTY), &[("sctp.cause_code", "0x000c")]) },
        case(Chunk::Abort(false, Tlvs::EMPTY), &[("sctp.chunk_length", "4")]),
    ]
}

/// The packet of a case, with its IP header.
fn packet(case: &Case) -> Vec<u8> {
    let mut buffer = vec![0; 1500];
    let (ip, rest) = buffer.split_at_mut(ipv4::HEADER_LEN);
    let mut packet = Builder::new(rest, &SctpRepr { src_port: 5_000, dst_port: 5_001, vtag: 1 });
    assert!(packet.chunk(&case.chunk));
    assert!(case.params.iter().all(|param| packet.param(param)));
    assert!(case.causes.iter().all(|cause| packet.cause(cause)));
    let len = packet.finish().len();
    Ipv4Repr {
        src: Ipv4Addr::new(10, 0, 0, 1),
        dst: Ipv4Addr::new(10, 0, 0, 2),
        protocol: protocol::SCTP,
        ttl: 64,
        tos: 0,
        ident: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: len as u16,
    }
    .emit(ip);
    buffer.truncate(ipv4::HEADER_LEN + len);
    buffer
}

fn pcapng(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut write = |block: Block<'_>| block.emit(&mut |part| file.extend_from_slice(part));
    write(Block::Section { application: "tests", comment: "" });
    write(Block::Interface { link: LINKTYPE_RAW, name: "" });
    for packet in packets {
        let (direction, data) = (Direction::Out, [&packet[..], &[]]);
        write(Block::Packet(PacketBlock { interface: 0, at_ns: 0, direction, data, comment: "" }));
    }
    file
}

/// The program, unless this machine does not have it; with LOWWATER_REQUIRE_NET=1 it must.
fn tshark() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("tshark")).find(|p| p.is_file());
    if found.is_none() {
        assert!(std::env::var_os("LOWWATER_REQUIRE_NET").is_none_or(|v| v != "1"), "this test needs tshark");
        eprintln!("skipped: needs tshark");
    }
    found
}

/// One line per frame that matches, with these fields.
fn dissect(tshark: &Path, file: &Path, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new(tshark);
    command.arg("-r").arg(file).args(["-o", "sctp.checksum:CRC 32c", "-Y", filter]);
    command.args(["-T", "fields", "-E", "separator=|"]);
    fields.iter().for_each(|field| _ = command.args(["-e", field]));
    let output = command.output().expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect()
}

#[test]
fn every_kind_of_chunk_is_what_tshark_reads() {
    let Some(tshark) = tshark() else { return };
    let cases: Vec<Case> =
        [setup(), transfer(), control(), reconfig(), errors()].into_iter().flatten().collect();
    let mut packets: Vec<_> = cases.iter().map(packet).collect();
    let file = std::env::temp_dir().join(format!("lowwater-sctp-{}.pcapng", std::process::id()));
    std::fs::write(&file, pcapng(&packets)).expect("a file");

    assert_eq!(dissect(&tshark, &file, BAD, &["frame.number", "_ws.expert.message"]), [] as [Vec<String>; 0]);
    let good = dissect(&tshark, &file, "sctp.checksum.status == Good", &["frame.number"]);
    assert_eq!(good.len(), cases.len(), "checksums that tshark finds good");
    let mut names: Vec<&str> =
        cases.iter().flat_map(|case| case.fields.iter().map(|(name, _)| *name)).collect();
    names.sort_unstable();
    names.dedup();
    let frames = dissect(&tshark, &file, "frame", &names);
    assert_eq!(frames.len(), cases.len());
    for (frame, case) in frames.iter().zip(&cases) {
        for (name, wanted) in &case.fields {
            let column = names.binary_search(name).expect("a name of the list");
            assert_eq!(frame[column], *wanted, "{name} of {:?}", case.chunk);
        }
    }

    // The check can fail: one wrong bit, and one length that is too long.
    *packets[4].last_mut().expect("a byte") ^= 1;
    let length = ipv4::HEADER_LEN + 12 + 3;
    packets[6][length] += 8;
    std::fs::write(&file, pcapng(&packets)).expect("a file");
    let bad = dissect(&tshark, &file, BAD, &["frame.number"]);
    assert_eq!(bad, [["5"], ["7"]]);
    std::fs::remove_file(file).expect("removed");
}
