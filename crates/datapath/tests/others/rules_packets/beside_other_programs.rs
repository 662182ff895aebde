//! Other people's programs on the same hook, before ours and behind it.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use netqos_api::HookChoice;
use netqos_core::Rule;
use netqos_datapath::HookKind;
use netqos_index::Change;
use netqos_testkit::rules::{HOOKS, World, apart, is_there, limiting, marking, policy};
use netqos_testkit::{ForeignHook, ForeignProgram, TcAttachType, Verdict, has_tcx};

use super::two_pods;

/// Datagrams of a round; and so many packets may come that the test did not send, of neighbours
/// who look for each other.
const ROUND: u64 = 200;
const NOISE: u64 = 40;

/// Where others attach: before and behind our preference, before and behind our link.
const PLACES: [ForeignHook; 4] = [
    ForeignHook::Clsact(1),
    ForeignHook::Clsact(1000),
    ForeignHook::TcxFirst,
    ForeignHook::TcxLast,
];

/// A rule that marks and has a queue.
fn metered() -> Rule {
    Rule {
        bandwidth: limiting(100).bandwidth,
        ..marking(20)
    }
}

/// Sends a round of datagrams with this `SO_MARK`; how many arrived.
fn round(world: &World, mark: u32) -> u64 {
    let to = SocketAddr::new(world.address("b", false).ip(), 0);
    let receiver = world.run("b", || UdpSocket::bind(to).unwrap());
    let wait = Some(Duration::from_millis(300));
    receiver.set_read_timeout(wait).unwrap();
    let to = receiver.local_addr().unwrap();
    world.run("a", || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        // SAFETY: an integer is as long as is said.
        let done = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MARK,
                (&raw const mark).cast(),
                size_of_val(&mark) as u32,
            )
        };
        assert_eq!(done, 0, "{}", io::Error::last_os_error());
        for number in 0..ROUND {
            socket.send_to(&[0; 100], to).unwrap();
            if number % 20 == 19 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    let mut received = 0;
    while receiver.recv(&mut [0; 200]).is_ok() {
        received += 1;
        if received == ROUND {
            receiver.set_nonblocking(true).unwrap();
        }
    }
    received
}

/// What became of a round of packets.
struct Seen {
    /// How many of each the foreign program saw.
    times: f64,
    arrived: u64,
    /// By our rule.
    marked: u64,
    hook: HookKind,
}

/// Puts the rule in force before the foreign program comes, or behind it, and takes both away.
fn arranged(world: &mut World, place: ForeignHook, verdict: Verdict, is_before: bool) -> Seen {
    let link = world.pod_named("a").host_link().to_owned();
    let attach = || ForeignProgram::attach(&link, TcAttachType::Ingress, place, verdict).unwrap();
    // Neighbours find each other before anybody drops what they ask. On a busy machine ARP takes more than a round.
    let end = Instant::now() + Duration::from_secs(10);
    while round(world, 0) == 0 {
        assert!(Instant::now() < end, "no packet arrives");
    }
    let early = is_before.then(&attach);
    let rule = policy("p", 1, "player", vec![metered()]);
    let outcome = world.apply(Change::Policy(rule.clone()));
    let foreign = early.unwrap_or_else(attach);
    let marked = |world: &World| -> u64 {
        let counts = world.rules.counts().unwrap();
        counts.iter().map(|count| count.marked).sum()
    };
    let before = (foreign.seen().unwrap(), marked(world));
    let arrived = round(world, 0);
    let seen = foreign.seen().unwrap() - before.0;
    let marked = marked(world) - before.1;
    world.apply(Change::PolicyGone(rule.name));
    Seen {
        times: seen as f64 / ROUND as f64,
        arrived,
        marked,
        hook: outcome.endpoints.values().next().unwrap().hook,
    }
}

/// Tries all arrangements, with each choice of our hook.
fn everywhere(verdict: Verdict, assert: fn(HookChoice, ForeignHook, bool, Seen)) {
    let hooks = [HookChoice::Auto, HOOKS[0], HOOKS[1]];
    apart(hooks.into_iter().filter(is_there), |hook| {
        let Some(mut world) = two_pods(hook) else {
            return;
        };
        let is_tcx =
            |place: &ForeignHook| matches!(place, ForeignHook::TcxFirst | ForeignHook::TcxLast);
        for place in PLACES
            .into_iter()
            .filter(|place| !is_tcx(place) || has_tcx())
        {
            for is_before in [true, false] {
                let seen = arranged(&mut world, place, verdict, is_before);
                assert(hook, place, is_before, seen);
            }
        }
    });
}

/// True when it is about so many times.
fn is_about(times: f64, right: u32) -> bool {
    let noise = NOISE as f64 / ROUND as f64;
    (times - f64::from(right)).abs() <= noise
}

#[test]
fn a_dropper_drops_wherever_it_stands() {
    everywhere(Verdict::Drop, |hook, place, is_before, seen| {
        let what = format!("{hook:?}, {place:?}, before: {is_before}");
        assert_eq!(seen.arrived, 0, "{what}");
        assert!(seen.times >= 1.0, "{what}: {}", seen.times);
    });
}

/// Who was there before us sees each packet once, though it passes the hook twice; so does who came
/// later and did not go before us.
#[test]
fn a_packet_with_a_queue_is_seen_once_by_who_stands_behind_us() {
    everywhere(Verdict::Next, |hook, place, is_before, seen| {
        let what = format!("{hook:?}, {place:?}, before: {is_before}, {:?}", seen.hook);
        assert_eq!(seen.arrived, ROUND, "{what}");
        assert!(seen.marked >= ROUND, "{what}: {}", seen.marked);
        let is_tcx = matches!(place, ForeignHook::TcxFirst | ForeignHook::TcxLast);
        let stands_before_us = match (seen.hook, is_before) {
            (HookKind::Tcx, true) => false,
            (HookKind::Tcx, false) => place == ForeignHook::TcxFirst,
            // tcx runs before clsact; of one preference the newest filter runs first.
            (_, _) => is_tcx || place == ForeignHook::Clsact(1),
        };
        // Without tcx hooks, a filter of a lower preference stands before ours.
        if is_before && hook == HookChoice::Auto && has_tcx() {
            assert!(!stands_before_us, "{what}");
        }
        let right = 1 + u32::from(stands_before_us);
        assert!(
            is_about(seen.times, right),
            "{what}: {}, not {right}",
            seen.times
        );
    });
}

/// A mark that a pod sets does not pass for ours, whichever hook its packets meet.
#[test]
fn a_forged_mark_bypasses_nothing() {
    let hooks = HOOKS.into_iter().filter(is_there);
    let cases = hooks.flat_map(|hook| [(hook, false), (hook, true)]);
    apart(cases, |(hook, is_macvlan)| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        for (name, kind) in [("a", "player"), ("b", "gateway")] {
            match is_macvlan {
                true => world.macvlan_pod(name, kind),
                false => world.pod(name, kind),
            }
        }
        let change = Change::Policy(policy("p", 1, "player", vec![metered()]));
        let outcome = world.apply(change);
        let number = outcome.endpoints.values().next().unwrap().number;
        let marked = || {
            world
                .rules
                .counts()
                .unwrap()
                .first()
                .map_or(0, |c| c.marked)
        };
        round(&world, 0);
        let before = marked();
        let forged = 0x6e71_0000 | u32::from(number);
        assert_eq!(round(&world, forged), ROUND, "{hook:?}");
        let marked = marked() - before;
        assert!(marked >= ROUND, "{hook:?}, macvlan: {is_macvlan}: {marked}");
    });
}
