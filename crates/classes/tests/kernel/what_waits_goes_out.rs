use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use crate::world::{World, shares};

/// About what the queue of a pod's part holds.
const DATAGRAMS: u32 = 100;
const BYTES: usize = 1000;

/// A part of 1 Mbit/s whose queue is full when it goes, while its class has more than enough to do.
#[test]
fn of_a_part_that_goes() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.ask("be", 0, Some(1));
    world.divide(shares(100));
    let receiver = world
        .outside
        .inside(|| UdpSocket::bind("0.0.0.0:0"))
        .unwrap()
        .unwrap();
    let port = receiver.local_addr().unwrap().port();
    let wait = Some(Duration::from_millis(700));
    receiver.set_read_timeout(wait).unwrap();
    let counts = thread::spawn(move || {
        let mut arrived = Vec::new();
        let mut bytes = [0; BYTES];
        while receiver.recv(&mut bytes).is_ok() {
            arrived.push(Instant::now());
        }
        arrived
    });
    let to = (world.outside.address(), port);
    let send = move || {
        let sender = UdpSocket::bind("0.0.0.0:0").unwrap();
        sender.connect((to.0.as_str(), to.1)).unwrap();
        for _ in 0..DATAGRAMS {
            sender.send(&[0; BYTES]).unwrap();
        }
    };
    world.pods["be"].inside(send).unwrap();
    let sent = Instant::now();
    thread::sleep(Duration::from_millis(50));
    world.ask("be", 0, None);
    world.divide(shares(100));
    let arrived = counts.join().unwrap();
    let before = arrived
        .iter()
        .filter(|at| **at < sent + Duration::from_millis(50))
        .count();
    assert!(before < DATAGRAMS as usize / 2, "{before} did not wait");
    assert_eq!(arrived.len(), DATAGRAMS as usize);
    assert!(
        !world
            .node
            .run("tc", &["class", "show", "dev", &world.line()])
            .unwrap()
            .contains("6e71:8")
    );
}
