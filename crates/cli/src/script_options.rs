//! packetdrill's options on the command line of `lowwater drill`: they stand behind those of every script, so they win.
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

/// Where `--help` shows them.
const HEADING: &str = "Options of packetdrill, over those in front of a script";
/// Name, what its value is (nothing for one that has none), meaning.
const OPTIONS: [(&str, &str, &str); 40] = [
    ("define", "NAME=VALUE", "A word, \"string\" or `command` that NAME stands for; may be repeated"),
    ("local_ip", "ADDRESS", "The stack's address"),
    ("remote_ip", "ADDRESS", "The peer's address"),
    ("gateway_ip", "ADDRESS", "Checked, otherwise without effect: every packet leaves by the one device"),
    ("netmask_ip", "MASK", "Of the stack's IPv4 address, as 255.255.0.0"),
    ("bind_port", "PORT", "What bind() with ... binds to"),
    ("connect_port", "PORT", "What connect() with ... connects to"),
    ("tolerance_usecs", "N", "How far an event may be from its time, in microseconds"),
    ("tolerance_percent", "N", "The same in percent of the time since the event before"),
    ("tcp_ts_tick_usecs", "N", "Compare timestamps of the stack, N microseconds per tick"),
    ("tcp_ts_ecr_scaled", "", "Echoed timestamps need not have gone out"),
    ("tcp_ts_ecr_exact", "", "Compare the timestamps that the stack echoes (ours)"),
    ("strict_segments", "", "Do not join segments"),
    (
        "non_fatal",
        "packet,syscall",
        "A packet that differs is told, and the script goes on; syscall: nothing, as there",
    ),
    ("code_command", "PYTHON", "Which Python 3 runs the snippets that cannot be read here; none: they fail"),
    ("init_scripts", "FILE,FILE", "Files of commands that run first, from each script's folder"),
    ("is_anyip", "", "A datagram of the peer that comes before any of ours is from its usual port"),
    (
        "mss",
        "N",
        "Packets of TCP with more than N bytes come in as segments of N bytes that the device has joined",
    ),
    ("dry_run", "", "Read the scripts and look up the names in them, and run nothing"),
    // packetdrill's own ways: checked as in front of a script, otherwise without effect.
    ("send_omit_free", "", NOTHING),
    ("verbose", "", NOTHING),
    ("debug", "", NOTHING),
    ("speed", "N", NOTHING),
    ("code_format", "python", NOTHING),
    ("code_sockopt", "NAME", NOTHING),
    ("no_cleanup", "", NOTHING),
    ("tun_dev", "DEVICE", NOTHING),
    ("persistent_tun_dev", "", NOTHING),
    ("local_linklocal_ip", "ADDRESS", NOTHING),
    ("gateway_linklocal_ip", "ADDRESS", NOTHING),
    ("udp_encaps", "PROTOCOL", NOTHING),
    // Refused with a reason, as in front of a script.
    ("tcp_md5_secret", "TEXT", NOTHING),
    ("wire_client", "", NOTHING),
    ("wire_server", "", NOTHING),
    ("wire_server_ip", "ADDRESS", NOTHING),
    ("wire_server_port", "PORT", NOTHING),
    ("wire_client_dev", "DEVICE", NOTHING),
    ("wire_server_dev", "DEVICE", NOTHING),
    ("so_filename", "FILE", NOTHING),
    ("so_flags", "FLAGS", NOTHING),
];
/// The meaning of those that `--help` does not show.
const NOTHING: &str = "";

/// Those that were given, with their values. A command line lives as long as the process, and so do they.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptOptions(pub(crate) &'static [(String, Option<String>)]);

impl Args for ScriptOptions {
    fn augment_args(command: Command) -> Command {
        let with = |command: Command, (name, value, help): &(&'static str, &'static str, &'static str)| {
            let arg = Arg::new(*name).long(*name).help(*help).help_heading(HEADING);
            let arg = match *name {
                "define" => arg.short('D'),
                "verbose" => arg.short('v'),
                _ => arg,
            };
            let arg = arg.hide(*help == NOTHING);
            command.arg(match *value {
                "" => arg.action(ArgAction::SetTrue),
                value => arg.value_name(value).action(ArgAction::Append),
            })
        };
        OPTIONS.iter().fold(command, with)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ScriptOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut given = Vec::new();
        for (name, value, _) in OPTIONS {
            if value.is_empty() {
                given.extend(matches.get_flag(name).then(|| (name.to_owned(), None)));
                continue;
            }
            let values = matches.get_many::<String>(name).unwrap_or_default();
            given.extend(values.map(|value| (name.to_owned(), Some(value.clone()))));
        }
        Ok(Self(given.leak()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
