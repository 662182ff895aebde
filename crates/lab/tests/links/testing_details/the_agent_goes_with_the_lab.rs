use std::fs;
use std::path::Path;

use netqos_lab::Which;
use serde_json::Value;

use super::stage::Stage;

#[test]
fn what_runs_the_rules_is_recorded_and_taken_away_with_the_lab() {
    let Some(stage) = Stage::new() else { return };
    let [lab] = &netqos_lab::list().unwrap()[..] else {
        panic!("one lab stands")
    };
    let record = Path::new("/run/netqos/lab").join(&lab.run).join("lab.json");
    let record: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
    let agent = &record["nodes"][0]["agent"]["pid"];
    let process = Path::new("/proc").join(agent.to_string());
    let name = fs::read_to_string(process.join("comm")).unwrap();
    assert_eq!(name.trim(), "netqos-agent");

    netqos_lab::down(&Which::All).unwrap();
    let still = fs::read_to_string(process.join("comm"));
    assert!(still.is_err(), "{still:?}");
    let left: Vec<_> = fs::read_dir("/run/netns").unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!Path::new("/run/netqos").exists());
    drop(stage);
}
