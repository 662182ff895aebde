use super::*;

const ALL: [Feature; 16] = [
    Feature::Tbf,
    Feature::PfifoFast,
    Feature::Clsact,
    Feature::Programs,
    Feature::BpfFilter,
    Feature::Tcx,
    Feature::Ifb,
    Feature::Redirect,
    Feature::Backstop,
    Feature::Veth,
    Feature::Rules,
    Feature::Backends,
    Feature::Classes,
    Feature::ClassRedirect,
    Feature::Htb,
    Feature::FqCodel,
];

/// A kernel that has all but these.
fn kernel_without(missing: &[Feature]) -> Features {
    let support = |feature: &Feature| match missing.contains(feature) {
        true => Support::Lacking("Operation not supported".to_owned()),
        false => Support::Works,
    };
    Features(
        ALL.iter()
            .map(|feature| (*feature, support(feature)))
            .collect(),
    )
}

#[test]
fn the_mode_is_what_an_add_would_choose() {
    for (missing, mode) in [
        (&[][..], Mode::RankedByClsact),
        (&[Feature::Clsact], Mode::Plain),
        (&[Feature::BpfFilter], Mode::Plain),
        (&[Feature::Tcx], Mode::RankedByClsact),
        (&[Feature::Programs], Mode::Plain),
        (&[Feature::PfifoFast], Mode::Plain),
        (&[Feature::Ifb, Feature::Redirect], Mode::RankedByClsact),
        (&[Feature::Tbf], Mode::None),
    ] {
        assert_eq!(kernel_without(missing).mode(), mode, "without {missing:?}");
    }
}

#[test]
fn what_is_lacking_is_said_in_one_line_with_what_to_do() {
    for feature in ALL {
        let error = kernel_without(&[feature])
            .require(&ALL)
            .unwrap_err()
            .to_string();
        assert!(error.contains(&feature.to_string()), "{error}");
        assert!(error.contains("Operation not supported"), "{error}");
        assert!(error.ends_with(feature.remedy()), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    assert!(kernel_without(&[]).require(&ALL).is_ok());
}

#[test]
fn missing_prerequisite_is_named_with_its_own_remedy() {
    let mut features = kernel_without(&[Feature::Clsact]);
    features
        .0
        .retain(|(feature, _)| *feature != Feature::Redirect);
    features.probe_feature(Feature::Redirect, &[Feature::Clsact], || -> Result<()> {
        unreachable!("it cannot work without clsact")
    });
    assert!(!features.works(Feature::Redirect));
    let error = features
        .require(&[Feature::Redirect])
        .unwrap_err()
        .to_string();
    assert!(error.contains("qdisc clsact"), "{error}");
    assert!(error.ends_with(Feature::Clsact.remedy()), "{error}");
}
