//! Captures as others read them: the crate pcap-file, and tshark.
use lowwater_wire::pcapng::{Block, Direction, LINKTYPE_RAW, PacketBlock};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::blocks::opt_common::CommonOption;
use pcap_file::pcapng::blocks::section_header::SectionHeaderOption;
use pcap_file::pcapng::{Block as Read, PcapNgReader};
use std::process::Command;
use std::time::Duration;

/// An IPv4 header of UDP to nowhere, 28 bytes.
const DATAGRAM: [u8; 28] =
    [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0x66, 0xcf, 10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 9, 0, 8, 0, 0];
const AT_NS: u64 = 1_700_000_000_123_456_789;

fn file(blocks: &[Block<'_>]) -> Vec<u8> {
    let mut file = Vec::new();
    for block in blocks {
        let before = file.len();
        block.emit(&mut |part| file.extend_from_slice(part));
        assert_eq!(file.len() - before, block.buffer_len());
    }
    file
}

fn packet<'a>(interface: u32, data: [&'a [u8]; 2], comment: &'a str) -> PacketBlock<'a> {
    PacketBlock { interface, at_ns: AT_NS, direction: Direction::Out, data, comment }
}

#[test]
fn what_is_written_is_read() {
    let long = "x".repeat(70_000);
    let packets = [
        packet(0, [&DATAGRAM[..20], &DATAGRAM[20..]], "first"),
        PacketBlock { direction: Direction::In, ..packet(1, [&DATAGRAM[..25], &[]], &long) },
        packet(1, [&[], &[]], ""),
    ];
    let [a, b, c] = packets.map(Block::Packet);
    let head = Block::Section { application: "tests", comment: "seed 7" };
    let file = file(&[
        head,
        Block::Interface { link: LINKTYPE_RAW, name: "a" },
        a,
        Block::Interface { link: LINKTYPE_RAW, name: "bcd" },
        b,
        c,
    ]);
    let mut reader = PcapNgReader::new(&file[..]).expect("a section");
    let about: Vec<_> = reader.section().options.iter().map(|o| format!("{o:?}")).collect();
    assert!(matches!(&reader.section().options[0], SectionHeaderOption::UserApplication(s) if s == "tests"));
    assert!(about.len() == 2 && about[1].contains("seed 7"), "{about:?}");
    let (mut names, mut seen) = (Vec::new(), Vec::new());
    while let Some(block) = reader.next_block() {
        match block.expect("well-formed").0 {
            Read::InterfaceDescription(i) => names.push(match &i.options[..] {
                [InterfaceDescriptionOption::IfName(name), InterfaceDescriptionOption::IfTsResol(_)] => {
                    (name.to_string(), i.snaplen)
                }
                other => panic!("{other:?}"),
            }),
            Read::EnhancedPacket(e) => {
                assert_eq!(
                    (e.timestamp, e.original_len as usize),
                    (Duration::from_nanos(AT_NS), e.data.len())
                );
                let comment = e.options.iter().find_map(|o| match o {
                    EnhancedPacketOption::Common(CommonOption::Comment(text)) => Some(text.len()),
                    _ => None,
                });
                let flags = e.options.iter().find_map(|o| match o {
                    EnhancedPacketOption::Flags(flags) => Some(*flags),
                    _ => None,
                });
                seen.push((e.interface_id, e.data.to_vec(), flags, comment));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(names, [("a".to_owned(), 0), ("bcd".to_owned(), 0)]);
    let whole = |data: &[u8]| data.to_vec();
    let wanted = [
        (0, whole(&DATAGRAM), Some(2), Some(5)),
        (1, whole(&DATAGRAM[..25]), Some(1), Some(65_535)),
        (1, Vec::new(), Some(2), None),
    ];
    assert_eq!(seen, wanted);
}

#[test]
fn a_text_that_is_cut_is_cut_between_characters() {
    for (word, kept) in [("é", 65_534), ("€", 65_535), ("🦀", 65_532)] {
        let long = word.repeat(40_000);
        let file = file(&[
            Block::Section { application: "", comment: &long },
            Block::Interface { link: LINKTYPE_RAW, name: "" },
            Block::Packet(packet(0, [&DATAGRAM, &[]], "behind it")),
        ]);
        let mut reader = PcapNgReader::new(&file[..]).expect("a section");
        let SectionHeaderOption::Common(CommonOption::Comment(text)) = &reader.section().options[0] else {
            panic!("{:?}", reader.section().options.len())
        };
        assert!(text.len() == kept && long.starts_with(&**text), "{word}: {}", text.len());
        let mut blocks = 0;
        while let Some(block) = reader.next_block() {
            block.expect("well-formed");
            blocks += 1;
        }
        assert_eq!(blocks, 2, "{word}");
    }
}

#[test]
fn tshark_reads_it() {
    let blocks = [
        Block::Section { application: "tests", comment: "" },
        Block::Interface { link: LINKTYPE_RAW, name: "host0" },
        Block::Interface { link: LINKTYPE_RAW, name: "host1" },
        Block::Packet(packet(1, [&DATAGRAM, &[]], "said")),
        Block::Packet(PacketBlock {
            direction: Direction::In,
            ..packet(0, [&DATAGRAM[..20], &DATAGRAM[20..]], "")
        }),
    ];
    let path = std::env::temp_dir().join(format!("lowwater-wire-{}.pcapng", std::process::id()));
    std::fs::write(&path, file(&blocks)).expect("a file");
    let fields = [
        "frame.interface_name",
        "frame.time_epoch",
        "frame.packet_flags_direction",
        "udp.dstport",
        "frame.comment",
    ];
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(&path).args(["-T", "fields", "-E", "separator=,"]);
    fields.iter().for_each(|field| _ = command.args(["-e", field]));
    let output = command.output();
    std::fs::remove_file(&path).expect("removed");
    let Ok(output) = output else {
        assert!(std::env::var_os("LOWWATER_REQUIRE_NET").is_none_or(|v| v != "1"), "this test needs tshark");
        return println!("skipped: needs tshark");
    };
    let (told, warned) =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).into();
    assert!(output.status.success(), "{warned}");
    // Some versions tell the direction in hexadecimal.
    let told = told.replace("0x0000000", "");
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines, ["host1,1700000000.123456789,2,9,said", "host0,1700000000.123456789,1,9,"], "{warned}");
}
