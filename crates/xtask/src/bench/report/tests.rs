use netqos_core::BitRate;

use super::*;

#[test]
fn a_cost_is_marked_by_what_it_was_to_reach() {
    let goal = (1.5, "≤ 1.5 ms".to_owned());
    for (ours, verdict) in [(0.9, "✓"), (1.5, "✓"), (1.51, "✗")] {
        let cell = (ours, format!("{ours:.2} ms"));
        assert_eq!(
            row("ADD, CPU", "3.96 ms", &cell, Some(&goal)),
            format!("| ADD, CPU | 3.96 ms | {ours:.2} ms | ≤ 1.5 ms | {verdict} |\n")
        );
    }
    let cell = (0.62, "0.62 ms".to_owned());
    assert_eq!(
        row("CHECK, wall", "3.08 ms", &cell, None),
        "| CHECK, wall | 3.08 ms | 0.62 ms |  |  |\n"
    );
}

#[test]
fn a_limit_is_marked_by_its_goodput_and_from_100_megabits_on_by_its_wait() {
    for (megabits, goodput, p50, p99, reaches) in [
        (1, 0.951, 9.0, 9.0, true),
        (1, 0.949, 0.1, 1.0, false),
        (10, 0.981, 9.0, 9.0, true),
        (10, 0.979, 0.1, 1.0, false),
        (10, 1.021, 0.1, 1.0, false),
        (100, 1.0, 0.1, 1.0, true),
        (100, 1.0, 0.11, 1.0, false),
        (1000, 1.0, 0.1, 1.01, false),
    ] {
        let given = Given {
            who: Who::Ours,
            limit: BitRate::from_bits_per_second(megabits * 1_000_000),
            flow: Flow::Upload,
            goodput,
            p50,
            p99,
        };
        assert_eq!(gives_what_was_promised(&given), reaches, "{given:?}");
        let mut text = String::new();
        let theirs = Given {
            who: Who::Theirs,
            ..given
        };
        limits(&mut text, &[theirs, given]).unwrap();
        let line = text.lines().find(|line| line.contains("egress")).unwrap();
        let verdict = if reaches { "| ✓ |" } else { "| ✗ |" };
        assert!(line.ends_with(verdict), "{line}");
    }
}

#[test]
fn the_first_second_and_processor_time_are_marked() {
    let rate = |megabits: u64| BitRate::from_bits_per_second(megabits * 1_000_000);
    let first = |who, flow, megabits| FirstSecond {
        who,
        flow,
        rate: rate(megabits),
    };
    let mut text = String::new();
    let all = [
        first(Who::Theirs, Flow::Download, 1500),
        first(Who::Ours, Flow::Download, 11),
        first(Who::Theirs, Flow::Upload, 1500),
        first(Who::Ours, Flow::Upload, 12),
    ];
    first_second(&mut text, &all).unwrap();
    assert!(
        text.ends_with(
            "| ingress | 1.5 Gbit/s | 11 Mbit/s | ✓ |\n| egress | 1.5 Gbit/s | 12 Mbit/s | ✗ |\n"
        ),
        "{text}"
    );

    let cost = |megabits, ours| super::super::traffic::Processor {
        limit: rate(megabits),
        flow: Flow::Upload,
        ours,
        theirs: 1.0,
    };
    let mut text = String::new();
    let traffic = Traffic {
        given: Vec::new(),
        first_second: Vec::new(),
        processor: vec![cost(1000, 1.3), cost(1000, 1.31), cost(5000, 1.16)],
    };
    processor(&mut text, &traffic).unwrap();
    let marks: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_suffix(" |")?.rsplit_once("| "))
        .map(|(_, mark)| mark)
        .filter(|mark| "✓✗".contains(mark) && !mark.is_empty())
        .collect();
    assert_eq!(marks, ["✓", "✗", "✗"], "{text}");
}
