//! What the kernel may say of links, qdiscs, filters, chains and rules: any bytes read as something or nothing,
//! and what was read can be asked.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netqos_netlink::link::Link;
use netqos_netlink::{filter, nft, qdisc};

fuzz_target!(|payload: &[u8]| {
    // Messages of qdiscs and filters are read for the link that they name.
    let link = payload.get(4..8).and_then(|bytes| bytes.try_into().ok());
    let index = link.map_or(0, u32::from_ne_bytes);
    if let Some(link) = Link::read(payload) {
        assert_eq!(link.index, index);
        let _ = link.mac();
    }
    if let Some(qdisc) = qdisc::Installed::read(payload, index) {
        let _ = (qdisc.is_default(), qdisc.tbf());
    }
    assert_eq!(qdisc::Installed::read(payload, !index), None);
    if let Some(filter) = filter::Installed::read(payload, index) {
        let _ = (filter.bpf(), filter.redirect());
    }
    let _ = nft::Chain::read(payload);
    if let Some(rule) = nft::Rule::read(payload) {
        assert!(rule.comment.len() <= 3 * usize::from(u8::MAX));
    }
});
