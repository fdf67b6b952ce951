//! One step of a case: which kind, on which side.
use crate::device::Mood;
use crate::world::{Side, World};
use crate::{assoc, calls, craft, mutate};
use lowwater_core::base::{Duration, Rng};
use lowwater_core::packet::Packet;
use lowwater_core::socket::Event;

/// Kinds of steps with their weights; an application's calls and a working link carry most of a case.
const KINDS: &[(&str, u64)] = &[
    ("call", 24),
    ("work", 24),
    ("deliver", 12),
    ("deliver changed", 8),
    ("repeat changed", 8),
    ("craft", 10),
    ("fragment", 3),
    ("icmp quote", 6),
    ("transmit", 6),
    ("complete", 4),
    ("ready", 2),
    ("timeout", 6),
    ("time", 6),
    ("back in time", 1),
    ("events", 6),
    ("settings", 1),
    ("rest", 1),
];

/// Draws the kind of step and does it.
pub(crate) fn run(world: &mut World, rng: &mut Rng, number: u32) -> Result<(), String> {
    let mut at = rng.below(KINDS.iter().map(|(_, weight)| weight).sum());
    let mut kind = "rest";
    for (name, weight) in KINDS {
        if at < *weight {
            kind = name;
            break;
        }
        at -= weight;
    }
    let n = rng.below(2) as usize;
    if world.sctp && matches!(kind, "call" | "craft") && rng.below(2) == 0 {
        if world.trace {
            println!("step {number} at {:?}: association on side {n}", world.now);
        }
        assoc::step(world, n, rng);
        return Ok(());
    }
    if world.trace {
        println!("step {number} at {:?}: {kind} on side {n}", world.now);
    }
    match kind {
        "call" => calls::any(world, n, rng),
        "work" => return work(world, rng),
        "deliver" => deliver(world, n, rng, false),
        "deliver changed" => deliver(world, n, rng, true),
        "repeat changed" => repeat(world, n, rng),
        "craft" => inject(world, n, craft::any(world, n, rng), rng),
        "fragment" => fragments(world, n, rng),
        "icmp quote" => quote(world, n, rng),
        "transmit" => {
            let mood = [Mood::Late, Mood::Busy, Mood::Small, Mood::Any][rng.below(4) as usize];
            let budget = [0, 1, 2, 16, 64][rng.below(5) as usize];
            world.transmit(n, rng, mood, budget)?;
        }
        "complete" => complete(world, n, rng),
        "ready" => {
            let side = &mut world.sides[n];
            side.stack.device_ready(world.now, side.dev);
        }
        "timeout" => world.sides[n].stack.handle_timeout(world.now),
        "time" => pass_time(world, rng),
        "back in time" => {
            let earlier = world.now - Duration::from_millis(rng.below(5_000));
            world.sides[n].stack.handle_timeout(earlier);
        }
        "events" => events(world, n, rng),
        "settings" => calls::settings(world, n, rng),
        _ => return world.rest(n, rng),
    }
    Ok(())
}

/// A round of an honest driver on both sides: so that conversations get somewhere.
fn work(world: &mut World, rng: &mut Rng) -> Result<(), String> {
    for n in 0..2 {
        let side = &mut world.sides[n];
        side.stack.device_ready(world.now, side.dev);
        for _ in 0..side.inbox.len() {
            if let Some(packet) = side.inbox.pop_front() {
                side.deliver(world.now, packet);
            }
        }
        for owner in std::mem::take(&mut side.held) {
            side.stack.complete(world.now, side.dev, owner);
        }
        side.stack.handle_timeout(world.now);
        world.transmit(n, rng, Mood::Willing, 32)?;
        events(world, n, rng);
    }
    world.now += Duration::from_micros(rng.below(2_000));
    Ok(())
}

/// Gives the oldest packet on the way, or another one, as it is or changed; sometimes it stays to come twice.
fn deliver(world: &mut World, n: usize, rng: &mut Rng, change: bool) {
    let now = world.now;
    let side = &mut world.sides[n];
    let burst = 1 + rng.below(8);
    for _ in 0..burst {
        if side.inbox.is_empty() {
            return;
        }
        let at = if rng.below(4) == 0 { rng.below(side.inbox.len() as u64) as usize } else { 0 };
        let Some(mut packet) = side.inbox.remove(at) else { return };
        if rng.below(16) == 0 {
            side.inbox.push_back(packet.clone());
        }
        packet.at = now;
        if rng.below(2) == 0 {
            packet = Packet::received(packet.to_bytes(), packet.offload, now);
        }
        if change {
            packet = changed(&packet, side.caps.link_len(), rng);
        }
        side.deliver(now, packet);
    }
}

fn changed(packet: &Packet, link: usize, rng: &mut Rng) -> Packet {
    let mut bytes = packet.to_bytes().to_vec();
    mutate::any(&mut bytes, link, rng);
    let mut fresh = Side::packet(bytes, packet.at);
    fresh.offload = packet.offload;
    mutate::lie(&mut fresh, rng);
    fresh
}

/// Changes a packet that came earlier and gives it again: old or invented parts of a real conversation.
fn repeat(world: &mut World, n: usize, rng: &mut Rng) {
    let now = world.now;
    let side = &mut world.sides[n];
    for _ in 0..=rng.below(3) {
        let Some(sample) = pick(&side.samples, rng) else { return };
        let packet = changed(&Side::packet(sample.clone(), now), side.caps.link_len(), rng);
        side.stack.receive(now, side.dev, packet);
    }
}

fn pick<'a>(samples: &'a std::collections::VecDeque<Vec<u8>>, rng: &mut Rng) -> Option<&'a Vec<u8>> {
    samples.get(rng.below(samples.len() as u64) as usize)
}

/// Gives IP packets to a stack, with a link header where there must be one.
pub(crate) fn inject(world: &mut World, n: usize, packets: Vec<Vec<u8>>, rng: &mut Rng) {
    let now = world.now;
    for ip in packets {
        let side = &mut world.sides[n];
        let frame = craft::frame(&side.caps, ip, rng);
        let mut packet = Side::packet(frame, now);
        mutate::lie(&mut packet, rng);
        side.stack.receive(now, side.dev, packet);
    }
}

fn fragments(world: &mut World, n: usize, rng: &mut Rng) {
    let side = &world.sides[n];
    let link = side.caps.link_len();
    let whole = pick(&side.samples, rng).and_then(|s| s.get(link..).map(<[u8]>::to_vec));
    let whole = whole.unwrap_or_else(|| craft::any(world, n, rng).pop().unwrap_or_default());
    let pieces = craft::fragments(&whole, rng);
    inject(world, n, pieces, rng);
}

/// An ICMP error that quotes what this side sent, or something that it never sent.
fn quote(world: &mut World, n: usize, rng: &mut Rng) {
    let other = &world.sides[1 - n];
    let link = other.caps.link_len();
    let own = pick(&other.samples, rng).and_then(|s| s.get(link..).map(<[u8]>::to_vec));
    let quoted = match own {
        Some(own) if rng.below(4) > 0 => own,
        _ => craft::any(world, 1 - n, rng).pop().unwrap_or_default(),
    };
    let error = craft::icmp_error(n, quoted, rng);
    inject(world, n, vec![error], rng);
}

fn complete(world: &mut World, n: usize, rng: &mut Rng) {
    let side = &mut world.sides[n];
    for _ in 0..=rng.below(4) {
        if side.held.is_empty() {
            return;
        }
        let owner = side.held.swap_remove(rng.below(side.held.len() as u64) as usize);
        side.stack.complete(world.now, side.dev, owner);
    }
}

/// Mostly a little, sometimes a lot, sometimes just to the next deadline, however far that is.
fn pass_time(world: &mut World, rng: &mut Rng) {
    let side = &world.sides[rng.below(2) as usize];
    let then = match (rng.below(8), side.stack.next_deadline()) {
        (0, _) if rng.below(16) == 0 => world.now + Duration::from_secs(rng.below(20_000_000_000)),
        (0, _) => world.now + Duration::from_secs(rng.below(100_000)),
        (1, _) => world.now + Duration::from_secs(rng.below(120)),
        (2..5, Some(at)) => world.now.max(at),
        _ => world.now + Duration::from_micros(rng.below(400_000)),
    };
    world.now = world.now.max(then.min(world.horizon));
}

/// Takes some or all events, and remembers the names in them.
fn events(world: &mut World, n: usize, rng: &mut Rng) {
    let side = &mut world.sides[n];
    let all = rng.below(4) > 0;
    while let Some(event) = side.stack.next_event() {
        match event {
            Event::Incoming { request, .. } => side.requests.push(request),
            Event::Accepted(listener) => match side.stack.tcp_accept(world.now, listener) {
                Ok((id, _)) => side.ids.push(id),
                Err(_) => assoc::accept(side, listener, world.now),
            },
            _ => {}
        }
        if !all {
            return;
        }
    }
}
