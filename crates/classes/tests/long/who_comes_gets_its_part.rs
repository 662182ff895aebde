use std::time::{Duration, Instant};

use netqos_netlink::Socket;
use netqos_testkit::classes::{SYSTEM, World, shares};
use netqos_traffic::Flow;

/// How long one look takes.
const LOOK: Duration = Duration::from_millis(20);

/// Best effort has the whole line when the system's traffic begins: within a tenth of a second that
/// has what it is guaranteed, and the line never carries more than it can.
#[test]
fn within_a_tenth_of_a_second_and_the_line_is_never_exceeded() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.divide(shares(100));
    // A look that the machine did not let happen in time says nothing of the line.
    let found: Vec<_> = (0..3).map(|_| join(&world)).collect();
    let right = found.iter().filter(|(delay, most)| {
        delay.is_some_and(|delay| delay <= Duration::from_millis(100)) && *most <= 105.0
    });
    assert!(right.count() >= 1, "{found:?}");
    eprintln!("{found:?}");
}

/// After how long the system has its 40 of 100 Mbit/s, and the most that the line carried in a look.
fn join(world: &World) -> (Option<Duration>, f64) {
    let mut socket = Socket::open().unwrap();
    let line = socket.link_by_name(&world.line()).unwrap();
    let mut read = move || {
        let classes = socket.classes(&line).unwrap();
        let bytes = |minor: u16| {
            let class = classes.iter().find(|class| class.handle.minor() == minor);
            class.unwrap().statistics.bytes
        };
        let minor = |of: netqos_core::classes::TrafficClass| u16::from(of.priority()) + 2;
        (Instant::now(), bytes(1), bytes(minor(SYSTEM)))
    };
    let (_, (_, looks)) = world.while_loaded(Flow::Upload, false, &["be"], 3.0, || {
        std::thread::scope(|scope| {
            let pod = &world.pods["sys"];
            let test = netqos_traffic::TcpTest {
                streams: 2,
                duration: Duration::from_millis(1200),
                omit: Duration::ZERO,
                ..netqos_traffic::TcpTest::new(world.outside_address(false))
            };
            let joins = scope.spawn(move || pod.inside(|| test.run(|_| ()).unwrap()).unwrap());
            let mut looks = vec![read()];
            while looks.last().unwrap().0 - looks[0].0 < Duration::from_millis(1000) {
                std::thread::sleep(LOOK);
                looks.push(read());
            }
            (joins.join().unwrap(), looks)
        })
    });
    let megabits =
        |from: u64, to: u64, time: Duration| (to - from) as f64 * 8.0 / time.as_secs_f64() / 1e6;
    let begin = looks.windows(2).find(|pair| pair[1].2 > pair[0].2 + 5_000);
    let begin = begin.map(|pair| pair[0].0);
    let has_its_part = looks.windows(2).find(|pair| {
        begin.is_some_and(|begin| pair[0].0 >= begin)
            && megabits(pair[0].2, pair[1].2, pair[1].0 - pair[0].0) >= 38.0
    });
    let delay = has_its_part.and_then(|pair| Some(pair[1].0 - begin?));
    // Over five looks, in which a burst and a GSO packet are little.
    let most = looks
        .windows(6)
        .map(|some| megabits(some[0].1, some[5].1, some[5].0 - some[0].0))
        .fold(0.0, f64::max);
    (delay, most)
}
