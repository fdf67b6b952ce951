//! The device that scripts' commands are about. packetdrill makes it itself where it runs against the kernel, and none where it has a shared object.
use crate::failure::say;
use crate::flags::Flags;
use lowwater_core::ip::Cidr;
use lowwater_os::netlink::{self, Held};
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
    let there = netlink::addresses().unwrap_or_default();
    if let Some(Held { device, ip, prefix }) = there.iter().find(|held| is_in_the_way(held, flags)) {
        return say(&format!(
            "no device {NAME} for the script's commands: {device} has {ip}/{prefix}; run it in a network namespace"
        ));
    }
    match open(flags) {
        Ok(tun) => *made = Some(tun),
        Err(why) => say(&format!("no device {NAME} for the script's commands: {why}")),
    }
}

/// An address of the namespace, or its subnet, overlaps with what the script's device would lead to.
fn is_in_the_way(held: &Held, flags: &Flags) -> bool {
    let theirs = Cidr::new(held.ip, held.prefix);
    let own = flags.addresses().into_iter().chain(flags.behind()).filter_map(|(ip, len)| Cidr::new(ip, len));
    let meets = |own: Cidr| own.contains(held.ip) || theirs.is_some_and(|theirs| theirs.contains(own.addr()));
    own.into_iter().any(meets)
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
        link.add_new_route(to, prefix, None)?;
    }
    Ok(tun)
}
