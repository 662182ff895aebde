//! Chart, kustomize, and what may be chosen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::super::chart::{CHART, Chart, NAMESPACE, objects};
use super::super::kustomize::{
    FOLDER, components, departures, departures_of_backends, leaving_overlays, optional,
};
use super::super::values_files;
use super::{choices, chosen, everything, highly_available};
use crate::generated::{read, root};

/// What kubectl makes of a folder; `None`, said aloud, where there is no kubectl.
fn kubectl(folder: &str) -> Option<BTreeMap<String, Value>> {
    let made = Command::new("kubectl")
        .arg("kustomize")
        .arg(root().join(folder))
        .output();
    let Ok(made) = made else {
        eprintln!("skipped: there is no kubectl to ask what it makes of {folder}");
        return None;
    };
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    Some(objects(&String::from_utf8(made.stdout).unwrap()).unwrap())
}

#[test]
fn kustomize_and_the_chart_make_the_same_objects() {
    let chart = Chart::read().unwrap();
    for (folder, chosen) in [
        (FOLDER.to_owned(), json!({})),
        (format!("{FOLDER}/overlays/all"), everything()),
    ] {
        let Some(mut made) = kubectl(&folder) else {
            return;
        };
        assert!(made.remove(&format!("Namespace/{NAMESPACE}")).is_some());
        for definition in netqos_k8s::definitions() {
            let file = definition.file();
            let (name, object) = objects(&definition.yaml().unwrap())
                .unwrap()
                .pop_first()
                .unwrap();
            assert_eq!(made.remove(&name), Some(object.clone()), "{name}");
            // Helm takes those of its own folder.
            let in_chart = objects(&read(&format!("{CHART}/crds/{file}")).unwrap()).unwrap();
            assert_eq!(in_chart.get(&name), Some(&object));
        }
        assert_same(&folder, &made, &chart.objects(&chosen).unwrap());
    }
}

/// And of each node's pods those that put back the plugin do it before they clean up, as with the chart.
#[test]
fn kustomize_takes_it_off_a_cluster_as_the_chart_does() {
    let chart = Chart::read().unwrap();
    for (name, mut components, leaves) in leaving_overlays() {
        let folder = format!("{FOLDER}/overlays/{name}");
        let Some(mut made) = kubectl(&folder) else {
            return;
        };
        assert!(made.remove(&format!("Namespace/{NAMESPACE}")).is_some());
        components.push(leaves);
        let rendered = chart.objects(&chosen(&components)).unwrap();
        assert_same(&folder, &made, &rendered);
        let steps = |objects: &BTreeMap<String, Value>| -> Vec<Value> {
            let pod = &objects["DaemonSet/netqos-agent"]["spec"]["template"]["spec"];
            let lists = ["initContainers", "containers"].map(|list| pod[list].as_array().unwrap());
            let steps = lists.into_iter().flatten();
            steps.map(|step| step["command"].clone()).collect()
        };
        assert_eq!(steps(&made), steps(&rendered), "{folder}");
        let stays = json!(["/netqos", "cleanup", "--yes", "--stay"]);
        assert_eq!(steps(&made).last(), Some(&stays));
    }
}

/// What is not in an overlay: each component by itself over the base, and the definitions alone.
#[test]
fn kustomize_makes_of_every_component_what_the_chart_makes_of_its_values() {
    let chart = Chart::read().unwrap();
    let all = components().into_iter().chain(optional());
    let all: BTreeMap<&str, Value> = all.chain(departures()).collect();
    let there = fs::read_dir(root().join(FOLDER).join("components")).unwrap();
    let there = there.map(|it| it.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<String> = there.collect();
    let of_backends = departures_of_backends().into_iter();
    let of_backends = of_backends.map(|(name, _)| name);
    let named = all.keys().copied().chain(of_backends);
    assert_eq!(there, named.map(ToOwned::to_owned).collect());
    for (name, chosen) in all {
        let Some(made) = own_folder("- {there}/base\n", &[name], "") else {
            return;
        };
        assert_same(name, &made, &chart.objects(&chosen).unwrap());
    }
}

/// What kubectl makes of a folder elsewhere, as whoever installs it has one, but for the namespace. An
/// absolute path is refused there.
fn own_folder(resources: &str, components: &[&str], more: &str) -> Option<BTreeMap<String, Value>> {
    let folder = root().join(FOLDER).canonicalize().unwrap();
    let own = tempfile::tempdir().unwrap();
    let path = own.path().canonicalize().unwrap();
    let up = "../".repeat(path.components().count() - 1);
    let there = format!("{up}{}", folder.strip_prefix("/").unwrap().display());
    let components = components.iter();
    let components: String = components
        .map(|name| format!("- {there}/components/{name}\n"))
        .collect();
    let resources = resources.replace("{there}", &there);
    let text = format!(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n\
         resources:\n{resources}components:\n{components}{more}"
    );
    fs::write(path.join("kustomization.yaml"), text).unwrap();
    let mut made = kubectl(path.to_str().unwrap())?;
    assert!(made.remove(&format!("Namespace/{NAMESPACE}")).is_some());
    Some(made)
}

/// Whoever takes away what a backend has made may do what the backend may, on whatever else it is put.
#[test]
fn kustomize_takes_away_what_a_class_backend_has_made() {
    let chart = Chart::read().unwrap();
    let backends = departures_of_backends()
        .into_iter()
        .zip(["tc", "terway-qos"]);
    for ((last, chosen), backend) in backends {
        let installed = format!("class-backend-{backend}");
        for (leaving, plugin) in [
            ("leaving", None),
            ("leaving-cni-plugin", Some("cni-plugin")),
        ] {
            let components = plugin.into_iter().chain([&*installed, leaving, last]);
            let components: Vec<&str> = components.collect();
            let Some(made) = own_folder("- {there}/base\n", &components, "") else {
                return;
            };
            let mut chosen = chosen.clone();
            chosen["cniPlugin"] = json!({"install": plugin.is_some()});
            assert_same(last, &made, &chart.objects(&chosen).unwrap());
            let pod = &made["DaemonSet/netqos-agent"]["spec"]["template"]["spec"];
            let cleans = |list: &str| {
                let steps = pod[list].as_array().unwrap().iter();
                let mut steps = steps.filter(|it| it["command"][1] == "cleanup");
                let step = steps.next().unwrap();
                sorted(&json!([step["securityContext"], step["volumeMounts"]]))
            };
            assert_eq!(cleans("initContainers"), cleans("containers"), "{last}");
        }
    }
}

/// As docs/install.md has it, for clusters where NetworkQoS is somebody else's.
#[test]
fn kustomize_leaves_out_a_definition() {
    let page = read("docs/install.md").unwrap();
    let block = page.split("```").find(|it| it.contains("$patch: delete"));
    let (_, patch) = block.unwrap().split_once('\n').unwrap();
    let resources = "- {there}/../crds\n- {there}/base\n";
    let Some(made) = own_folder(resources, &["cni-plugin"], patch) else {
        return;
    };
    let definitions = made.keys().filter(|it| it.starts_with("Custom"));
    let definitions: Vec<&String> = definitions.collect();
    assert_eq!(definitions.len(), netqos_k8s::definitions().len() - 1);
    assert!(!definitions.iter().any(|it| it.contains("k8s.ovn.org")));
}

/// No folder is left out of what is made here.
#[test]
fn kustomize_takes_every_folder() {
    let folders = folders_with_a_kustomization(&root().join("deploy"));
    assert!(folders.len() > 10, "{folders:?}");
    for folder in folders {
        let text = fs::read_to_string(folder.join("kustomization.yaml")).unwrap();
        // The test above, which puts them over the base.
        if text.contains("kind: Component") {
            continue;
        }
        match kubectl(folder.to_str().unwrap()) {
            Some(made) => assert!(!made.is_empty(), "{}", folder.display()),
            None => return,
        }
    }
}

fn folders_with_a_kustomization(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(folders_with_a_kustomization(&path));
        } else if path.ends_with("kustomization.yaml") {
            all.push(folder.to_owned());
        }
    }
    all
}

#[track_caller]
fn assert_same(folder: &str, made: &BTreeMap<String, Value>, rendered: &BTreeMap<String, Value>) {
    assert_eq!(
        made.keys().collect::<Vec<_>>(),
        rendered.keys().collect::<Vec<_>>(),
        "{folder}"
    );
    for (name, object) in rendered {
        // Kustomize sorts nothing that counts: lists of a patch come before those of the base.
        assert_eq!(sorted(&made[name]), sorted(object), "{folder}: {name}");
    }
}

/// With lists whose items have names in the order of those.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| (name.clone(), sorted(value)));
            Value::Object(fields.collect())
        }
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(sorted).collect();
            if items.iter().all(|item| item["name"].is_string()) {
                items.sort_by_key(|item| (item["name"].to_string(), item["mountPath"].to_string()));
            }
            Value::Array(items)
        }
        other => other.clone(),
    }
}

#[test]
fn the_schema_takes_the_defaults_and_refuses_what_is_wrong() {
    let schema =
        serde_json::from_str(&read(&format!("{CHART}/values.schema.json")).unwrap()).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let defaults: Value =
        serde_saphyr::from_str(&read(&format!("{CHART}/values.yaml")).unwrap()).unwrap();
    let with = |path: &str, value: Value| {
        let mut values = defaults.clone();
        let (parent, field) = path.rsplit_once('/').unwrap();
        values.pointer_mut(parent).unwrap()[field] = value;
        schema.validate(&values).map_err(|why| why.to_string())
    };
    schema.validate(&defaults).unwrap();
    for (path, right) in [
        ("/agent/maxUnavailable", json!(1)),
        ("/agent/resources", json!({"limits": {"cpu": 1}})),
        ("/agent/egress", json!("ifb")),
        ("/controller/webhookFailurePolicy", json!("Fail")),
        ("/image/pullSecrets", json!([{"name": "a"}])),
        ("/global", json!({"of": "another chart"})),
        ("/otlp/endpoint", json!("https://otel:4318/in")),
    ] {
        with(path, right.clone()).unwrap_or_else(|why| panic!("{path} {right}: {why}"));
    }
    for (path, wrong) in [
        ("/agents", json!({})),
        ("/agent/hooks", json!("auto")),
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
        ("/monitoring/interval", json!("30 seconds")),
        ("/otlp/endpoint", json!("otel:4317")),
        ("/otlp/endpoint", json!("http://me:secret@otel:4318")),
    ] {
        assert!(with(path, wrong.clone()).is_err(), "{path}: {wrong}");
    }
}

/// Beside what every choice is held to: objects of Kubernetes' types that a server takes.
#[test]
fn with_the_values_for_high_availability_no_two_replicas_are_on_one_node() {
    let schema =
        serde_json::from_str(&read(&format!("{CHART}/values.schema.json")).unwrap()).unwrap();
    let schema: Value = schema;
    let chosen = highly_available();
    // Helm puts them over the defaults before it asks the schema.
    for (part, values) in chosen.as_object().unwrap() {
        for name in values.as_object().unwrap().keys() {
            let known = &schema["properties"][part]["properties"][name];
            assert!(known.is_object(), "there is no value {part}.{name}");
        }
    }
    let objects = Chart::read().unwrap().objects(&chosen).unwrap();
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
    let chart = Chart::read().unwrap();
    let policies = |chosen: &Value| {
        let objects = chart.objects(chosen).unwrap();
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

/// Slices are the controller's, and so is the Lease.
#[test]
fn without_a_controller_an_agent_may_ask_for_nothing_of_it() {
    let chart = Chart::read().unwrap();
    for is_there in [true, false] {
        let chosen = json!({"controller": {"enabled": is_there}});
        let objects = chart.objects(&chosen).unwrap();
        let of_agent = objects
            .iter()
            .filter(|(name, _)| name.ends_with("/netqos-agent"));
        let rules = of_agent.map(|(_, object)| object["rules"].to_string());
        let rules = rules.collect::<String>();
        for of_controller in ["networkqospeerslices", "leases"] {
            assert_eq!(rules.contains(of_controller), is_there, "{rules}");
        }
        assert!(rules.contains("networkqosquotas"), "{rules}");
    }
}

/// By it the controller and `netqos check` know.
#[test]
fn pods_that_take_everything_away_have_a_label() {
    let chart = Chart::read().unwrap();
    for leaves in [true, false] {
        let objects = chart.objects(&json!({"leaving": leaves})).unwrap();
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
fn every_value_has_its_text_and_every_choice_renders() {
    values_files::values().unwrap();
    let chart = Chart::read().unwrap();
    for chosen in choices() {
        let texts = chart.render(&chosen).unwrap();
        assert!(texts["NOTES.txt"].contains("rollout status"));
        assert!(!chart.objects(&chosen).unwrap().is_empty());
    }
}

#[test]
fn nothing_is_privileged_and_nothing_can_be_written_in_an_image() {
    let chart = Chart::read().unwrap();
    for chosen in choices() {
        for (name, object) in chart.objects(&chosen).unwrap() {
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

/// The profiles that runtimes give by default deny writing below `/sys/fs/bpf` and to the node's files.
#[test]
fn what_works_on_files_of_the_node_is_not_confined_to_the_container() {
    let chart = Chart::read().unwrap();
    for chosen in choices() {
        let objects = chart.objects(&chosen).unwrap();
        let pod = &objects["DaemonSet/netqos-agent"]["spec"]["template"]["spec"];
        let containers = ["containers", "initContainers"].map(|list| &pod[list]);
        for container in containers.into_iter().filter_map(Value::as_array).flatten() {
            let context = &container["securityContext"];
            assert_eq!(context["appArmorProfile"]["type"], json!("Unconfined"));
            assert_eq!(context["seLinuxOptions"]["type"], json!("spc_t"));
        }
    }
}

/// Who is on the node's network finds a Service's name by the cluster's DNS only where it is told to.
#[test]
fn traces_go_nowhere_unless_a_collector_is_named() {
    let chart = Chart::read().unwrap();
    let endpoint = "http://otel.observability.svc:4318";
    let variable = json!({"name": "OTEL_BSP_SCHEDULE_DELAY", "value": "1000"});
    let named = json!({"otlp": {"endpoint": endpoint, "env": [variable]}});
    let unnamed = json!({"otlp": {"env": [variable]}});
    for (chosen, is_named) in [(json!({}), false), (unnamed, false), (named, true)] {
        let objects = chart.objects(&chosen).unwrap();
        for name in ["DaemonSet/netqos-agent", "Deployment/netqos-controller"] {
            let pod = &objects[name]["spec"]["template"]["spec"];
            let container = &pod["containers"][0];
            let flag = json!(format!("--otlp-endpoint={endpoint}"));
            let arguments = container["args"].as_array().unwrap();
            assert_eq!(arguments.contains(&flag), is_named, "{name}");
            let text = chart.objects(&chosen).unwrap()[name].to_string();
            assert!(is_named || !text.contains("otlp"), "{name}: {text}");
            let variables = container["env"].as_array().unwrap();
            assert_eq!(variables.contains(&variable), is_named, "{name}");
            let names: Vec<&str> = variables
                .iter()
                .filter_map(|it| it["name"].as_str())
                .collect();
            // Which an agent's report says, too.
            for name in ["POD_NAME", "POD_NAMESPACE"] {
                assert!(names.contains(&name), "{names:?}");
            }
        }
        let dns = &objects["DaemonSet/netqos-agent"]["spec"]["template"]["spec"]["dnsPolicy"];
        let wanted = if is_named {
            "ClusterFirstWithHostNet"
        } else {
            "Default"
        };
        assert_eq!(dns, wanted);
    }
}

#[test]
fn who_may_vouch_for_a_collector_is_mounted_where_that_is_named() {
    let chart = Chart::read().unwrap();
    let named = json!({"otlp": {"endpoint": "https://otel:4318", "caConfigMap": "otel-ca"}});
    let off = json!({"otlp": {"caConfigMap": "otel-ca"}});
    for (chosen, is_named) in [(named, true), (off, false), (json!({}), false)] {
        let objects = chart.objects(&chosen).unwrap();
        for name in ["DaemonSet/netqos-agent", "Deployment/netqos-controller"] {
            let pod = &objects[name]["spec"]["template"]["spec"];
            let container = &pod["containers"][0];
            let has =
                |list: &Value, item: Value| list.as_array().is_some_and(|it| it.contains(&item));
            let volume = json!({"name": "otlp-ca", "configMap": {"name": "otel-ca"}});
            assert_eq!(has(&pod["volumes"], volume), is_named, "{name}");
            let folder = "/etc/netqos/otlp";
            let mount = json!({"name": "otlp-ca", "mountPath": folder, "readOnly": true});
            assert_eq!(has(&container["volumeMounts"], mount), is_named, "{name}");
            let variable = "OTEL_EXPORTER_OTLP_CERTIFICATE";
            let variable = json!({"name": variable, "value": format!("{folder}/ca.crt")});
            assert_eq!(has(&container["env"], variable), is_named, "{name}");
        }
    }
}

#[test]
fn the_agent_may_enter_pods_only_where_that_is_chosen() {
    let chart = Chart::read().unwrap();
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
        let objects = chart.objects(&json!({"agent": agent})).unwrap();
        let container =
            &objects["DaemonSet/netqos-agent"]["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(
            container["securityContext"]["capabilities"]["add"],
            expected
        );
    }
}
