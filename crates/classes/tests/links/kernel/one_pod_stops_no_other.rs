use std::fs;

use netqos_api::HookChoice;
use netqos_classes::{ClassBackend, Trouble};
use netqos_core::classes::Place;
use netqos_testkit::classes::{BE, LS, SYSTEM, World, classed, shares};
use netqos_traffic::Flow;
use rustix::mount::{MountFlags, mount_bind, mount_remount};

fn of_pod<'t>(troubles: &'t [Trouble], uid: &str) -> Vec<&'t str> {
    let is_of_pod = |trouble: &&Trouble| {
        let part = trouble.part.as_ref();
        part.is_some_and(|part| &*part.pod == uid)
    };
    let troubles = troubles.iter().filter(is_of_pod);
    troubles.map(|trouble| &*trouble.what).collect()
}

/// By its link, whose filters are another's block, where the kernel has no tcx; and by a cgroup that is
/// none.
#[test]
fn whose_program_or_cgroup_cannot_be() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.attach_by(HookChoice::Clsact);
    // The first by its uid, before all others.
    let link = world.pods["be"].host_link().to_owned();
    world.plan.lines = [(world.line(), shares(100))].into();
    let words = format!("qdisc add dev {link} ingress_block 7 clsact");
    let words: Vec<&str> = words.split(' ').collect();
    world.node.run("tc", &words).unwrap();
    let place = Place {
        host_network: true,
        cgroup: Some("/cgroup.procs/pod".into()),
        ..Place::default()
    };
    world.plan.pods.insert("a".into(), classed("a", BE, place));
    for _ in 0..2 {
        let outcome = world.backend.apply(&world.plan).unwrap();
        assert_eq!(outcome.lines, [world.line()], "{outcome:#?}");
        let said = of_pod(&outcome.troubles, "be");
        assert!(
            said.len() == 1 && said[0].starts_with(&link),
            "{outcome:#?}"
        );
        let said = of_pod(&outcome.troubles, "a");
        assert!(
            said.len() == 1 && said[0].starts_with("its cgroup cgroup.procs/pod: "),
            "{outcome:#?}"
        );
        assert_eq!(outcome.troubles.len(), 2, "{outcome:#?}");
    }
    for (pod, class) in [("sys", SYSTEM), ("ls", LS), ("be", BE)] {
        let before = world.sent(Flow::Upload);
        let found = world.transfer(pod, Flow::Upload, false);
        let sent = world.sent(Flow::Upload)[&class] - before[&class];
        assert!(sent as f64 >= 0.95 * found, "{pod}: {sent} of {found}");
    }
    // Once nothing is in the way any more nothing is said.
    for words in [
        format!("qdisc del dev {link} clsact"),
        format!("qdisc add dev {link} clsact"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        world.node.run("tc", &words).unwrap();
    }
    world.plan.pods.remove("a");
    assert_eq!(world.backend.apply(&world.plan).unwrap().troubles, []);
}

#[test]
fn whose_number_in_net_cls_cannot_be_written() {
    let Some(mut world) = World::new() else {
        return;
    };
    let group = world.host_pod("a", BE, 1);
    let file = group.path.join("net_cls.classid");
    mount_bind(&file, &file).unwrap();
    let read_only = MountFlags::BIND | MountFlags::RDONLY;
    mount_remount(&file, read_only, c"").unwrap();
    world.plan.lines = [(world.line(), shares(100))].into();
    let outcome = world.backend.apply(&world.plan).unwrap();
    assert_eq!(outcome.lines, [world.line()], "{outcome:#?}");
    let said = of_pod(&outcome.troubles, "a");
    assert!(
        said.len() == 1 && said[0].contains("net_cls.classid"),
        "{outcome:#?}"
    );
    assert_eq!(outcome.troubles.len(), 1, "{outcome:#?}");
    let before = world.sent(Flow::Download);
    let found = world.transfer("be", Flow::Download, false);
    let got = world.sent(Flow::Download)[&BE] - before[&BE];
    assert!(got as f64 >= 0.95 * found, "{got} of {found}");
    rustix::mount::unmount(&file, rustix::mount::UnmountFlags::DETACH).unwrap();
    assert_eq!(world.backend.apply(&world.plan).unwrap().troubles, []);
    assert_ne!(fs::read_to_string(&file).unwrap().trim(), "0");
}
