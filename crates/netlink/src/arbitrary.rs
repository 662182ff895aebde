//! Messages for property tests: mostly well framed, with anything inside.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::link::Link;
use crate::wire::{self, Request};

/// Words that decoders look for.
const WORDS: [&[u8]; 5] = [b"tbf\0", b"bpf\0", b"u32\0", b"mirred\0", b"no end"];

/// What stands behind a message's header: a fixed part, and attributes inside of attributes. Some
/// are cut off.
pub(crate) fn message() -> impl Strategy<Value = Vec<u8>> {
    let fixed = vec(any::<u8>(), 20);
    let cut = prop_oneof![3 => Just(usize::MAX), 1 => 0_usize..200];
    (fixed, attributes(), cut).prop_map(|(fixed, attributes, cut)| {
        let mut payload = [fixed, attributes].concat();
        payload.truncate(cut);
        payload
    })
}

fn attributes() -> impl Strategy<Value = Vec<u8>> {
    let value = prop_oneof![
        3 => vec(any::<u8>(), 0..40),
        1 => select(&WORDS[..]).prop_map(<[u8]>::to_vec),
    ];
    value.prop_recursive(6, 96, 8, |inner| {
        // Mostly the low kinds, which mean something at every level.
        let kind = prop_oneof![3 => 0_u16..9, 1 => 0_u16..64];
        vec((kind, inner), 0..8).prop_map(|all| {
            Request::attributes_only(|request| {
                all.iter().fold(request, |request, (kind, value)| {
                    request.attribute(*kind, value)
                })
            })
        })
    })
}

/// A link of which only the index is known.
pub(crate) fn link(index: u32) -> Link {
    Link::read(&wire::words([0, index, 0, 0])).unwrap()
}

/// A request as its receiver sees it, without the header.
pub(crate) fn payload(request: Request) -> Vec<u8> {
    let bytes = request.finish(1);
    let (message, rest) = wire::split_message(&bytes).unwrap();
    assert!(rest.is_empty());
    message.payload.to_vec()
}
