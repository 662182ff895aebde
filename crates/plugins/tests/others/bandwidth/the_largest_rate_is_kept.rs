//! 64 bits from the annotation to the kernel: a petabit per second, the most that one may say.

use serde_json::json;

use super::calls::{add, check, limited_to, start};
use super::kernel::{in_pod, on_host};

#[test]
fn both_ways() {
    let Some((_node, pod)) = start() else { return };
    let petabit = 1_000_000_000_000_000;
    let config = limited_to(&pod, petabit, petabit, json!({}));
    add(&pod, &config);
    check(&pod, &config);
    for held in [on_host(pod.host_link()), in_pod(&pod, "eth0")] {
        assert_eq!(held.tbf.unwrap().rate, petabit / 8);
    }
}
