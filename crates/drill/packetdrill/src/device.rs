//! The device that scripts' commands are about. packetdrill makes it itself where it runs against the kernel, and none where it has a shared object.
use crate::failure::say;
use crate::flags::Flags;
use lowwater_os::{Link, SetupError, Tun, TunOptions};
use std::sync::{Mutex, PoisonError};

/// What packetdrill calls it.
pub(crate) const NAME: &str = "tun0";

/// The one that was made here: it goes with the process.
static MADE: Mutex<Option<Tun>> = Mutex::new(None);

/// Makes the device for a script with commands, in the namespace where packetdrill's own would be, unless there is one already. No packet passes it.
/// Where none can be had, whichever command needs it fails with its own words.
pub(crate) fn make(flags: &Flags) {
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    // That of the process's last script, which had other addresses.
    drop(made.take());
    if !flags.commands() || Link::by_name(NAME).is_ok() {
        return;
    }
    match open(flags) {
        Ok(tun) => *made = Some(tun),
        Err(why) => say(&format!("no device {NAME} for the script's commands: {why}")),
    }
}

/// With the address and the route that packetdrill gives its own.
fn open(flags: &Flags) -> Result<Tun, SetupError> {
    let tun = Tun::open(&TunOptions { offload: false, mtu: flags.mtu().into(), ..TunOptions::new(NAME) })?;
    let link = tun.link()?;
    link.up()?;
    for (ip, prefix) in flags.addresses() {
        link.add_address(ip, prefix)?;
    }
    for (to, prefix) in flags.behind() {
        link.add_route(to, prefix, None)?;
    }
    Ok(tun)
}
