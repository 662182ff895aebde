//! The chart, and what may be chosen.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use super::super::chart::CHART;
use super::super::values::Values;
use super::{chart, choices, highly_available};
use crate::generated::{read, root};

/// The values with this one at a JSON pointer.
fn at(pointer: &str, value: Value) -> Value {
    let names = pointer.rsplit('/').filter(|it| !it.is_empty());
    names.fold(value, |inner, name| json!({ name: inner }))
}

#[test]
fn values_of_every_form_are_accepted() {
    let values = json!({
        "agent": {
            "maxUnavailable": 1,
            "resources": {"limits": {"cpu": 1}},
            "egress": "ifb",
        },
        "controller": {"webhookFailurePolicy": "Fail"},
        "image": {"pullSecrets": [{"name": "a"}]},
        "global": {"of": "another chart"},
    });
    chart().render(&values).unwrap();
}

#[test]
fn invalid_value_is_refused_with_its_path() {
    for (pointer, wrong) in [
        ("/agent/hook", json!("xdp")),
        ("/agent/port", json!(0)),
        ("/agent/port", json!(65536)),
        ("/agent/port", json!("9470")),
        ("/agent/maxUnavailable", json!("ten")),
        ("/agent/tolerations", json!({})),
        ("/agent/cniCache", json!("var/lib/cni")),
        ("/agent/logLevel", json!("")),
        ("/cniPlugin/install", json!("yes")),
        ("/controller/webhookFailurePolicy", json!("fail")),
        ("/cniPlugin/directory", json!("opt")),
        ("/image/repository", json!("")),
        ("/image/pullPolicy", json!("always")),
        ("/leaving", json!(1)),
        ("/multinet/configDirectory", json!("etc/cni/net.d")),
        ("/multinet/listName", json!("net.d/99-netqos.conflist")),
        ("/multinet/defaultNetwork", json!("10-pods.conflist")),
        ("/monitoring/interval", json!("30 seconds")),
    ] {
        let refused = chart().render(&at(pointer, wrong.clone())).unwrap_err();
        let expected = format!("at '{pointer}': ");
        let refused = refused.to_string();
        assert!(refused.contains(&expected), "{wrong}: {refused}");
    }
}

#[test]
fn unknown_value_is_refused_with_its_name() {
    for (pointer, parent, name) in [
        ("/agents", "", "agents"),
        ("/agent/hooks", "/agent", "hooks"),
    ] {
        let refused = chart().render(&at(pointer, json!({}))).unwrap_err();
        let expected = format!("at '{parent}': additional properties '{name}' not allowed");
        let refused = refused.to_string();
        assert!(refused.contains(&expected), "{refused}");
    }
}

/// As a release that set it keeps it at an upgrade.
#[test]
fn removed_value_is_refused_by_name_until_it_is_null() {
    for (pointer, name, value) in [
        ("/otlp", "otlp", json!({"endpoint": "http://otel:4318"})),
        ("/controller/enabled", "controller.enabled", json!(true)),
        (
            "/controller/zoneConditions",
            "controller.zoneConditions",
            json!(true),
        ),
        ("/multinet/updateList", "multinet.updateList", json!(false)),
    ] {
        let refused = chart().render(&at(pointer, value)).unwrap_err().to_string();
        let expected = format!("the value {name} was removed: ");
        assert!(refused.contains(&expected), "{refused}");
        assert!(refused.contains(&format!("--set {name}=null")), "{refused}");
        chart().render(&at(pointer, Value::Null)).unwrap();
    }
}

/// Helm writes nothing for a value that does not exist.
#[test]
fn templates_use_exactly_the_values_that_exist() {
    let defaults = serde_json::to_value(Values::default()).unwrap();
    let mut used = BTreeSet::new();
    for entry in fs::read_dir(root().join(CHART).join("templates")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for rest in text.split(".Values.").skip(1) {
            let end = rest.find(|it: char| !it.is_alphanumeric() && it != '.');
            let name = &rest[..end.unwrap_or(rest.len())];
            let pointer = format!("/{}", name.replace('.', "/"));
            assert!(
                defaults.pointer(&pointer).is_some(),
                "{name} does not exist"
            );
            used.insert(name.to_owned());
        }
    }
    let parts = defaults.as_object().unwrap().iter();
    let names = parts.flat_map(|(part, values)| match values.as_object() {
        Some(values) if !values.is_empty() => {
            let names = values.keys().map(|name| format!("{part}.{name}"));
            names.collect()
        }
        _ => vec![part.clone()],
    });
    let is_unused = |name: &String| {
        let inside = format!("{name}.");
        !used.iter().any(|it| it == name || it.starts_with(&inside))
    };
    // Helm sets it for charts within charts.
    assert_eq!(names.filter(is_unused).collect::<Vec<_>>(), ["global"]);
}

#[test]
fn older_kubernetes_is_refused() {
    let arguments = ["template", "--kube-version", "1.33.9"];
    let refused = chart().helm(&arguments, &json!({})).unwrap_err();
    let expected = "chart requires kubeVersion: >=1.34.0";
    assert!(refused.to_string().contains(expected), "{refused}");
}

#[test]
fn notes_follow_the_values() {
    let notes = |values: Value| {
        let printed = chart().helm(&["install", "--dry-run=client"], &values);
        let printed = printed.unwrap();
        let (_, notes) = printed.split_once("\nNOTES:\n").unwrap();
        notes.to_owned()
    };
    let sentences = [
        "cniPlugin.install=true",
        "may not enter the pods' network namespaces",
        "It is leaving",
        "keep netqos-multinet",
    ];
    let multinet = json!({"enabled": true, "install": true});
    for (values, expected) in [
        (json!({}), [true, false, false, false]),
        (json!({"cniPlugin": {"install": true}}), [false; 4]),
        (
            json!({"agent": {"enterPods": false}}),
            [true, true, false, false],
        ),
        (json!({"leaving": true}), [true, false, true, false]),
        (json!({"multinet": multinet}), [true, false, false, false]),
        (
            json!({"leaving": true, "multinet": multinet}),
            [true, false, true, true],
        ),
    ] {
        let notes = notes(values);
        for always in ["rollout status", "need Linux 5.10"] {
            assert!(notes.contains(always), "{always}: {notes}");
        }
        assert_eq!(sentences.map(|it| notes.contains(it)), expected, "{notes}");
    }
}

/// Those of `deploy/monitoring` are for a Prometheus without its operator, and for Grafana's import.
#[test]
fn alerts_and_dashboard_of_the_chart_are_those_of_the_files() {
    let values = json!({"monitoring": {"enabled": true}});
    let objects = chart().objects(&values).unwrap();
    let file = read("deploy/monitoring/alerts.yaml").unwrap();
    let alerts: Value = serde_saphyr::from_str(&file).unwrap();
    assert_eq!(objects["PrometheusRule/netqos"]["spec"], alerts);
    let dashboard = &objects["ConfigMap/netqos-dashboard"]["data"]["netqos.json"];
    assert_eq!(*dashboard, read("deploy/monitoring/netqos.json").unwrap());
}

/// Beside what every choice is held to: objects of Kubernetes' types that a server takes.
#[test]
fn with_the_values_for_high_availability_no_two_replicas_are_on_one_node() {
    let objects = chart().objects(&highly_available()).unwrap();
    let deployment = &objects["Deployment/netqos-controller"]["spec"];
    assert!(deployment["replicas"].as_u64() >= Some(2));
    let spread = deployment["template"]["spec"]["topologySpreadConstraints"].as_array();
    let by_node = spread
        .unwrap()
        .iter()
        .find(|it| it["topologyKey"] == "kubernetes.io/hostname");
    let by_node = by_node.unwrap();
    assert_eq!(by_node["whenUnsatisfiable"], "DoNotSchedule");
    assert_eq!(by_node["labelSelector"], deployment["selector"]);
    let budget = &objects["PodDisruptionBudget/netqos-controller"]["spec"];
    assert_eq!(budget["maxUnavailable"], 1);
    assert_eq!(budget["selector"], deployment["selector"]);
}

/// Of every webhook that refuses something.
#[test]
fn what_is_done_where_the_webhook_does_not_answer_may_be_chosen() {
    let policies = |chosen: &Value| {
        let objects = chart().objects(chosen).unwrap();
        let kinds = ["Validating", "Mutating"];
        let webhooks = kinds.map(|kind| {
            let object = &objects[&format!("{kind}WebhookConfiguration/netqos")];
            object["webhooks"].as_array().unwrap().clone()
        });
        let webhooks = webhooks.concat().into_iter();
        let failing = webhooks.filter(|it| match it["failurePolicy"].as_str() {
            Some("Ignore") => false,
            Some("Fail") => true,
            other => panic!("{other:?}"),
        });
        let names = failing.map(|it| it["name"].as_str().unwrap().to_owned());
        names.collect::<BTreeSet<String>>()
    };
    let fails = json!({"controller": {"webhookFailurePolicy": "Fail"}});
    let strict = json!({"controller": {"webhookFailurePolicy": "Fail", "strictAnnotations": true}});
    assert!(policies(&json!({})).is_empty());
    let (objects, all) = (policies(&fails), policies(&strict));
    assert!(objects.len() > 3, "{objects:?}");
    let annotations = all.difference(&objects).map(String::as_str);
    assert_eq!(
        annotations.collect::<BTreeSet<_>>(),
        netqos_admission::OF_ANNOTATIONS.into()
    );
}

/// By it the controller and `netqos check` know.
#[test]
fn pods_that_take_everything_away_have_a_label() {
    for leaves in [true, false] {
        let objects = chart().objects(&json!({"leaving": leaves})).unwrap();
        let spec = &objects["DaemonSet/netqos-agent"]["spec"];
        let label = &spec["template"]["metadata"]["labels"]["netqos.io/leaving"];
        assert_eq!(label == "true", leaves, "{label}");
        assert_eq!(
            spec["selector"]["matchLabels"]["netqos.io/leaving"],
            Value::Null
        );
    }
}

#[test]
fn the_chart_has_the_version_of_what_it_installs() {
    let about: Value =
        serde_saphyr::from_str(&read(&format!("{CHART}/Chart.yaml")).unwrap()).unwrap();
    assert_eq!(about["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(about["appVersion"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn nothing_is_privileged_and_nothing_can_be_written_in_an_image() {
    for chosen in choices() {
        for (name, object) in chart().objects(&chosen).unwrap() {
            let pod = &object["spec"]["template"]["spec"];
            let containers = ["containers", "initContainers"].map(|list| &pod[list]);
            for container in containers.into_iter().filter_map(Value::as_array).flatten() {
                let context = &container["securityContext"];
                assert_ne!(context["privileged"], json!(true), "{name}");
                assert_eq!(context["readOnlyRootFilesystem"], json!(true), "{name}");
                assert_eq!(context["capabilities"]["drop"], json!(["ALL"]), "{name}");
                assert_eq!(
                    context["seccompProfile"]["type"],
                    json!("RuntimeDefault"),
                    "{name}"
                );
                assert!(
                    container["resources"]["requests"]["memory"].is_string(),
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn install_plugin_has_two_capabilities() {
    let all = chart()
        .objects(&json!({"cniPlugin": {"install": true}}))
        .unwrap();
    let mut containers = all
        .values()
        .filter_map(|object| object["spec"]["template"]["spec"]["initContainers"].as_array())
        .flatten();
    let install = containers
        .find(|it| it["name"] == "install-plugin")
        .unwrap();
    // What `install_over_files_of_another_user_needs_two_capabilities` runs with.
    assert_eq!(
        install["securityContext"]["capabilities"],
        json!({"drop": ["ALL"], "add": ["DAC_OVERRIDE", "FOWNER"]})
    );
}

/// The profiles that runtimes give by default deny writing below `/sys/fs/bpf` and to the node's files.
#[test]
fn what_works_on_files_of_the_node_is_not_confined_to_the_container() {
    for chosen in choices() {
        let objects = chart().objects(&chosen).unwrap();
        let pod = &objects["DaemonSet/netqos-agent"]["spec"]["template"]["spec"];
        let containers = ["containers", "initContainers"].map(|list| &pod[list]);
        for container in containers.into_iter().filter_map(Value::as_array).flatten() {
            let context = &container["securityContext"];
            assert_eq!(context["appArmorProfile"]["type"], json!("Unconfined"));
            assert_eq!(context["seLinuxOptions"]["type"], json!("spc_t"));
        }
    }
}

#[test]
fn the_agent_may_enter_pods_only_where_that_is_chosen() {
    for (agent, expected) in [
        (
            json!({"enterPods": true}),
            json!(["NET_ADMIN", "BPF", "PERFMON", "SYS_ADMIN", "SYS_PTRACE"]),
        ),
        (
            json!({"enterPods": false}),
            json!(["NET_ADMIN", "BPF", "PERFMON"]),
        ),
        (
            json!({"enterPods": false, "classBackends": ["tc"]}),
            json!(["NET_ADMIN", "BPF", "PERFMON", "NET_RAW"]),
        ),
        (
            json!({"enterPods": false, "classBackend": "tc"}),
            json!(["NET_ADMIN", "BPF", "PERFMON", "NET_RAW"]),
        ),
    ] {
        let objects = chart().objects(&json!({"agent": agent})).unwrap();
        let container =
            &objects["DaemonSet/netqos-agent"]["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(
            container["securityContext"]["capabilities"]["add"],
            expected
        );
    }
}
