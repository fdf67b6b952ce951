//! The program that packetdrill makes of a script's snippets: each with the values of its moment in front, all run by Python at the end.
use super::Runner;
use super::info;
use super::snippet::Facts;
use crate::names;
use std::fmt::Write as _;

/// What packetdrill's program begins with stands for nothing here: a failure names the file and the line by these two.
const HEAD: &str = "_file, _line = None, 0\n";
/// Constants that snippets have. packetdrill knows all but the last one.
const CONSTANTS: [&str; 24] = [
    "TCP_ESTABLISHED",
    "TCP_SYN_SENT",
    "TCP_SYN_RECV",
    "TCP_FIN_WAIT1",
    "TCP_FIN_WAIT2",
    "TCP_TIME_WAIT",
    "TCP_CLOSE",
    "TCP_CLOSE_WAIT",
    "TCP_LAST_ACK",
    "TCP_LISTEN",
    "TCP_CLOSING",
    "TCP_CA_Open",
    "TCP_CA_Disorder",
    "TCP_CA_CWR",
    "TCP_CA_Recovery",
    "TCP_CA_Loss",
    "TCPI_OPT_TIMESTAMPS",
    "TCPI_OPT_WSCALE",
    "TCPI_OPT_ECN",
    "TCPI_OPT_SYN_DATA",
    "TCPI_OPT_SACK",
    "TCPI_OPT_ECN_SEEN",
    "TCPI_OPT_USEC_TS",
    "TCPI_OPT_TFO_CHILD",
];

impl Runner<'_> {
    /// Takes note of a snippet for [`crate::python`].
    pub(super) fn note_python(&mut self, line: usize, text: &str, facts: &Facts) {
        let Some(program) = &mut self.python else { return };
        if program.is_empty() {
            program.push_str(HEAD);
        }
        let constant = |name: &str| names::constant(name).map(i128::from);
        let values = info::names().map(|name| {
            let value = facts.get(&name);
            (name, value)
        });
        let constants = CONSTANTS.iter().map(|name| ((*name).to_owned(), constant(name)));
        for (name, value) in values.chain(constants) {
            if let Some(value) = value {
                // Writing to a string cannot fail.
                let _ = writeln!(program, "{name} = {value}");
            }
        }
        let _ = writeln!(program, "_line = {line}\n{text}\n");
    }
}
