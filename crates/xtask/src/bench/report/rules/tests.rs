use super::*;
use crate::bench::rules::live::{Case, Cost, Live, Other};
use crate::bench::rules::rates::{Rates, Reached, Stream};
use crate::bench::rules::{Hooks, Spread};

fn around(median: f64) -> Spread {
    Spread {
        low: median - 1.0,
        median,
        high: median + 1.0,
    }
}

fn measured() -> Measured {
    let cost = |case, added| Cost {
        case,
        added: around(added),
        program: matches!(case, Case::Rules(_)).then(|| around(200.0)),
    };
    Measured {
        kernel: "6.18".to_owned(),
        cores: 2,
        how_live: crate::bench::rules::live::Thoroughness {
            setups: 2,
            rounds: 3,
            milliseconds: 50,
        },
        live: Live {
            base: around(1000.0),
            costs: vec![
                cost(Case::Unruled, 101.0),
                cost(Case::Rules(1), 250.0),
                cost(Case::Rules(1000), 501.0),
                cost(Case::Of(Other::Nft, 1), 120.0),
                cost(Case::Of(Other::Nft, 1000), 12_345.0),
            ],
            absent: vec!["iptables-legacy-restore".to_owned()],
        },
        program: Vec::new(),
        hooks: Hooks::default(),
        many_peers: Default::default(),
        first_index: Default::default(),
        changes: Default::default(),
        end_to_end: Default::default(),
        rates: None,
    }
}

#[test]
fn each_number_of_rules_has_a_row_with_others_beside_it_and_a_mark() {
    let text = tables(&measured()).unwrap();
    for row in [
        "| none, beside pods that have some | 101 (100–102) | – | – | ≤ 100 | ✗ |",
        "| 1 | 250 (249–251) | 200 (199–201) | 120 (119–121) | ≤ 500 | ✓ |",
        "| 1000 | 501 (500–502) | 200 (199–201) | 12.3 µs (12.3–12.3) | ≤ 500 | ✗ |",
        "`iptables-legacy-restore` was not there, and is left out.",
    ] {
        assert!(text.lines().any(|line| line == row), "no {row} in\n{text}");
    }
}

#[test]
fn every_row_has_as_many_cells_as_its_heading() {
    let mut measured = measured();
    measured.rates = Some(some_rates());
    let text = tables(&measured).unwrap();
    let cells = |line: &str| line.matches('|').count();
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.windows(2).filter(|pair| pair[1].starts_with('|')) {
        if pair[0].starts_with('|') {
            assert_eq!(cells(pair[0]), cells(pair[1]), "{pair:#?}");
        }
    }
}

#[test]
fn rates_that_were_not_measured_are_not_shown() {
    let text = tables(&measured()).unwrap();
    assert!(text.contains("Not measured in this run"));
}

fn some_rates() -> Rates {
    let reached = |megabits, way, control: &str, share: f64| Reached {
        stream: Stream {
            megabits,
            way,
            control: control.to_owned(),
        },
        share: Spread {
            low: share - 0.01,
            median: share,
            high: share + 0.01,
        },
    };
    Rates {
        repeats: 3,
        queued: vec![
            reached(1, 0, "cubic", 0.92),
            reached(1, 20, "bbr", 0.99),
            reached(1, 0, "udp", 1.03),
            reached(10, 0, "cubic", 0.919),
            reached(10, 20, "bbr", 0.99),
            reached(10, 0, "udp", 1.0),
            reached(20, 0, "cubic", 0.99),
            reached(20, 0, "udp", 0.96),
        ],
        policed: Vec::new(),
    }
}

#[test]
fn a_rate_is_marked_by_what_each_kind_of_traffic_reaches() {
    let mut text = String::new();
    rates::rates(&mut text, &some_rates()).unwrap();
    for row in [
        "| rate, Mbit/s | 0.05 ms, CUBIC | 20 ms, BBR | UDP | |",
        "| 1 | 92.0 (91.0–93.0) | 99.0 (98.0–100.0) | 103.0 (102.0–104.0) | ✓ |",
        "| 10 | 91.9 (90.9–92.9) | 99.0 (98.0–100.0) | 100.0 (99.0–101.0) | ✗ |",
        "| 20 | 99.0 (98.0–100.0) | – | 96.0 (95.0–97.0) | ✗ |",
    ] {
        assert!(text.lines().any(|line| line == row), "no {row} in\n{text}");
    }
}
