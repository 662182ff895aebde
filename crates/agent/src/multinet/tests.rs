use netqos_api::multinet::{About, Answer, Message, NadName, PROTOCOL, PodName};
use netqos_k8s::{Object, objects_from_yaml};

use super::NetworkCatalog;

const OBJECTS: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: shop}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: infra}}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: lan, namespace: shop, resourceVersion: '7', annotations: {k8s.v1.cni.cncf.io/resourceName: a.b/c}}
spec: {config: '{\"type\": \"bridge\"}'}
---
{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: shared, namespace: infra}}
---
apiVersion: netqos.io/v1alpha1
kind: NetworkAttachmentPolicy
metadata: {name: bridges, resourceVersion: '8'}
spec: {namespaceSelector: {matchLabels: {team: shop}}, pluginTypes: [bridge]}
---
apiVersion: netqos.io/v1alpha1
kind: NetworkAttachmentPolicy
metadata: {name: masters}
spec: {masters: [eth1]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, uid: u1, annotations: {k8s.v1.cni.cncf.io/networks: lan}}
spec: {nodeName: node1, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: proxy, namespace: shop, uid: u2, annotations: {kubernetes.io/config.hash: h2}}
spec: {nodeName: node1, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: away, namespace: shop, uid: u3}
spec: {nodeName: node2, containers: [{name: c, image: i}]}
";

fn objects(text: &str) -> Vec<Object> {
    objects_from_yaml(text)
        .into_iter()
        .map(Result::unwrap)
        .collect()
}

/// The catalog of `node1` with these objects.
fn catalog(text: &str) -> NetworkCatalog {
    let catalog = NetworkCatalog::new("node1");
    for object in objects(text) {
        catalog.put(&object);
    }
    catalog.complete();
    catalog
}

fn ask(catalog: &NetworkCatalog, pod: &str, uid: Option<&str>, about: About) -> Answer {
    let (namespace, name) = pod.split_once('/').unwrap();
    catalog.answer(&Message {
        version: PROTOCOL,
        pod: PodName {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.map(str::to_owned),
        },
        about,
    })
}

fn nad(namespace: &str, name: &str) -> About {
    About::Nads(vec![NadName {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }])
}

fn refused(answer: Answer) -> String {
    match answer {
        Answer::Refused(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn nad_has_the_permissions_of_all_policies_about_its_namespace() {
    let Answer::Nads(found) = ask(&catalog(OBJECTS), "shop/web", None, nad("shop", "lan")) else {
        panic!();
    };
    let [found] = &found[..] else { panic!() };
    assert_eq!(found.config.as_deref(), Some("{\"type\": \"bridge\"}"));
    assert_eq!(found.resource_version, "7");
    assert_eq!(found.resource_name.as_deref(), Some("a.b/c"));
    assert_eq!(found.grant.plugin_types, ["bridge".to_owned()].into());
    assert_eq!(found.grant.masters, ["eth1".to_owned()].into());
    let policies: Vec<_> = found
        .policies
        .iter()
        .map(|(name, version)| (&**name, &**version))
        .collect();
    assert_eq!(policies, [("bridges", "8"), ("masters", "")]);
}

#[test]
fn policy_about_other_namespaces_permits_nothing() {
    let open = "{apiVersion: netqos.io/v1alpha1, kind: NetworkAttachmentPolicy, metadata: {name: open}, \
                spec: {openTo: {}}}";
    let all = format!("{OBJECTS}---\n{open}");
    let answer = ask(&catalog(&all), "shop/web", None, nad("infra", "shared"));
    let Answer::Nads(found) = answer else {
        panic!("{answer:?}")
    };
    assert!(found[0].grant.plugin_types.is_empty());
}

#[test]
fn nad_of_another_namespace_is_refused_unless_a_policy_opens_it() {
    let about = || nad("infra", "shared");
    let why = refused(ask(&catalog(OBJECTS), "shop/web", None, about()));
    assert!(why.contains("openTo"), "{why}");
    let policy = |to: &str| {
        format!(
            "{OBJECTS}---\n{{apiVersion: netqos.io/v1alpha1, kind: NetworkAttachmentPolicy, metadata: {{name: open}}, spec: \
             {{namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: infra}}}}, openTo: {to}}}}}"
        )
    };
    for (to, is_open) in [
        ("{}", true),
        ("{matchLabels: {team: shop}}", true),
        ("{matchLabels: {team: bank}}", false),
    ] {
        let answer = ask(&catalog(&policy(to)), "shop/web", None, about());
        assert_eq!(
            matches!(answer, Answer::Nads(_)),
            is_open,
            "{to}: {answer:?}"
        );
    }
    // Opened is what the policy is about, and nothing else.
    let answer = ask(
        &catalog(&policy("{}")),
        "infra/web",
        None,
        nad("shop", "lan"),
    );
    refused(answer);
}

#[test]
fn missing_nad_is_refused_only_once_all_objects_are_read() {
    let unread = NetworkCatalog::new("node1");
    let answer = ask(&unread, "shop/web", None, nad("shop", "wan"));
    assert!(matches!(answer, Answer::TryAgain(_)), "{answer:?}");
    let why = refused(ask(&catalog(OBJECTS), "shop/web", None, nad("shop", "wan")));
    assert_eq!(why, "no NetworkAttachmentDefinition shop/wan exists");
}

#[test]
fn pod_is_known_by_names_and_uid_and_static_pod_by_its_hash() {
    let catalog = catalog(OBJECTS);
    let networks = |pod, uid| match ask(&catalog, pod, uid, About::Annotations) {
        Answer::Annotations { networks, .. } => Ok(networks),
        other => Err(other),
    };
    assert_eq!(networks("shop/web", Some("u1")), Ok(Some("lan".to_owned())));
    assert_eq!(networks("shop/web", None), Ok(Some("lan".to_owned())));
    assert_eq!(networks("shop/proxy", Some("h2")), Ok(None));
    // Another pod of the name, one of another node, and one that nobody has.
    for (pod, uid) in [
        ("shop/web", Some("u9")),
        ("shop/away", Some("u3")),
        ("shop/none", None),
    ] {
        let answer = networks(pod, uid).unwrap_err();
        assert!(matches!(answer, Answer::TryAgain(_)), "{answer:?}");
    }
}

#[test]
fn object_that_is_gone_is_not_in_the_catalog() {
    let catalog = catalog(OBJECTS);
    for object in objects(OBJECTS) {
        catalog.remove(&object);
    }
    refused(ask(&catalog, "shop/web", None, nad("shop", "lan")));
    let answer = ask(&catalog, "shop/web", None, About::Annotations);
    assert!(matches!(answer, Answer::TryAgain(_)), "{answer:?}");
}

/// A policy may select namespaces by the absence of a label.
#[test]
fn nad_is_not_answered_before_all_objects_are_read() {
    let catalog = NetworkCatalog::new("node1");
    for object in objects(OBJECTS) {
        catalog.put(&object);
    }
    let about = || nad("shop", "lan");
    let answer = ask(&catalog, "shop/web", None, about());
    assert!(matches!(answer, Answer::TryAgain(_)), "{answer:?}");
    catalog.complete();
    let answer = ask(&catalog, "shop/web", None, about());
    assert!(matches!(answer, Answer::Nads(_)), "{answer:?}");
}

#[test]
fn configurations_larger_than_bound_are_refused() {
    let long = "x".repeat(10_000);
    let large = OBJECTS.replace(
        "\"bridge\"}",
        &format!("\"bridge\", \"comment\": \"{long}\"}}"),
    );
    let catalog = catalog(&large);
    let names = vec![
        NadName {
            namespace: "shop".to_owned(),
            name: "lan".to_owned()
        };
        30
    ];
    let answer = ask(&catalog, "shop/web", None, About::Nads(names));
    assert!(refused(answer).contains("larger than"), "bound");
}

/// A selector may match namespaces by the absence of a label, which the watch may tell later.
#[cfg(feature = "daemon")]
#[tokio::test]
async fn namespace_that_the_watch_lacks_is_permitted_nothing() {
    let closed = "---
apiVersion: netqos.io/v1alpha1
kind: NetworkAttachmentPolicy
metadata: {name: open}
spec:
  namespaceSelector: {matchExpressions: [{key: closed, operator: DoesNotExist}]}
  pluginTypes: [bridge]
  openTo: {matchExpressions: [{key: closed, operator: DoesNotExist}]}
---
{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: lan, namespace: late}}
";
    let written = catalog(&format!("{OBJECTS}{closed}"));
    let asked = [
        ("late/web", nad("late", "lan")),
        ("shop/web", nad("late", "lan")),
        ("late/web", nad("shop", "lan")),
    ];
    for (pod, about) in asked.clone() {
        let answer = ask(&written, pod, None, about);
        assert!(matches!(answer, Answer::Nads(_)), "{pod} {answer:?}");
    }
    let watched = written;
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    watched.confirm_with(netqos_cluster::Client::try_from(nowhere).unwrap());
    let [own, foreign, of_late] = asked.clone();
    for (pod, about) in [own, of_late] {
        let answer = ask(&watched, pod, None, about);
        let is_later = matches!(&answer, Answer::TryAgain(why) if why.contains("namespace late"));
        assert!(is_later, "{pod} {answer:?}");
    }
    // As if it were there and closed: pods do not learn which namespaces there are.
    let missing = refused(ask(&watched, foreign.0, None, foreign.1.clone()));
    for object in objects(
        "{apiVersion: v1, kind: Namespace, metadata: {name: late, labels: {closed: 'yes'}}}",
    ) {
        watched.put(&object);
    }
    assert_eq!(refused(ask(&watched, foreign.0, None, foreign.1)), missing);
    let [_, _, of_late] = asked;
    refused(ask(&watched, of_late.0, None, of_late.1));
}

#[test]
fn command_for_a_list_names_directory_and_file_that_are_not_the_defaults() {
    let bare = "netqos install-plugin --multinet --to PLUGIN_DIRECTORY";
    let k3s = "/var/lib/rancher/k3s/agent/etc/cni/net.d";
    for (list, options) in [
        (
            "/etc/cni/net.d/00-netqos.conflist".to_owned(),
            String::new(),
        ),
        (
            format!("{k3s}/00-netqos.conflist"),
            format!(" --conf-dir {k3s}"),
        ),
        (
            "/etc/cni/net.d/99-netqos.conflist".to_owned(),
            " --list-name 99-netqos.conflist".to_owned(),
        ),
    ] {
        let command = super::install_command(list.as_ref());
        assert_eq!(command, format!("{bare}{options}"));
    }
}
