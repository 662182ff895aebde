//! Servers that tests borrow.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use netqos_kubernetes::Lease;
use serde_json::json;

async fn client(lease: &Lease) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(&lease.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.unwrap()).unwrap()
}

fn object<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Returned, a server holds what it held before: objects that a test created are gone, and those that
/// it changed or deleted are back.
#[tokio::test]
async fn next_lease_holds_nothing_of_the_one_before() {
    let lease = Lease::take().await.unwrap();
    let before = client(&lease).await;
    let (parameters, delete) = (PostParams::default(), DeleteParams::default());
    let namespaces: Api<Namespace> = Api::all(before.clone());
    let games = object(json!({"metadata": {"name": "games"}}));
    namespaces.create(&parameters, &games).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(before.clone(), "games");
    for number in 0..150 {
        let map = object(json!({"metadata": {"name": format!("m{number}")}}));
        maps.create(&parameters, &map).await.unwrap();
    }
    let roles: Api<ClusterRole> = Api::all(before);
    roles.delete("view", &delete).await.unwrap();
    let mut edit = roles.get("edit").await.unwrap();
    edit.metadata
        .labels
        .get_or_insert_default()
        .insert("changed".to_owned(), "true".to_owned());
    roles.replace("edit", &parameters, &edit).await.unwrap();
    let port = lease.kubeconfig();
    drop(lease);

    let lease = Lease::take().await.unwrap();
    assert_eq!(lease.kubeconfig(), port, "the same server");
    let now = client(&lease).await;
    let namespaces: Api<Namespace> = Api::all(now.clone());
    assert!(namespaces.get_opt("games").await.unwrap().is_none());
    let maps: Api<ConfigMap> = Api::namespaced(now.clone(), "games");
    assert_eq!(maps.list(&ListParams::default()).await.unwrap().items, []);
    let roles: Api<ClusterRole> = Api::all(now);
    assert!(roles.get_opt("view").await.unwrap().is_some());
    let edit = roles.get("edit").await.unwrap();
    assert!(
        !edit
            .metadata
            .labels
            .unwrap_or_default()
            .contains_key("changed")
    );
}

/// kube-apiserver follows a CRD with a delay: a test after one that changed a CRD gets another server.
#[tokio::test]
async fn lease_after_changed_crd_is_of_another_server() {
    let lease = Lease::take().await.unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(client(&lease).await);
    let name = netqos_k8s::definitions()[0].name();
    crds.delete(&name, &DeleteParams::default()).await.unwrap();
    let before = lease.kubeconfig();
    drop(lease);
    let lease = Lease::take().await.unwrap();
    assert_ne!(lease.kubeconfig(), before);
    let crds: Api<CustomResourceDefinition> = Api::all(client(&lease).await);
    assert!(crds.get_opt(&name).await.unwrap().is_some());
}

/// Killed in the middle of a test, a program leaves no process and no file.
#[test]
fn killed_program_leaves_no_server() {
    if std::env::var_os("NETQOS_TEST_HOLD").is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let lease = runtime.block_on(Lease::take()).unwrap();
        println!("{}", lease.kubeconfig());
        loop {
            std::thread::park();
        }
    }
    let temporary = tempfile::tempdir().unwrap();
    let mut held = Command::new(std::env::current_exe().unwrap())
        .args([
            "pool::killed_program_leaves_no_server",
            "--exact",
            "--nocapture",
        ])
        .env("NETQOS_TEST_HOLD", "1")
        .env("TMPDIR", temporary.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(120);
    let mine = || children(held.id());
    while mine().len() < 2 || !is_listening(&mine()) {
        assert!(Instant::now() < end, "no server was started");
        std::thread::sleep(Duration::from_millis(100));
    }
    let servers = mine();
    held.kill().unwrap();
    held.wait().unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while servers
        .iter()
        .any(|pid| fs::exists(format!("/proc/{pid}/exe")).unwrap() && !is_zombie(*pid))
    {
        assert!(Instant::now() < end, "servers are left: {servers:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
}

fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|it| it.unwrap().file_name().to_str()?.parse().ok());
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(") ").next().unwrap_or_default();
        after_name.split(' ').nth(1) == Some(&parent.to_string())
    };
    processes.filter(is_child).collect()
}

fn is_zombie(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ")
}

/// Returns true once one of them is kube-apiserver, which is executed when its files are written.
fn is_listening(pids: &[u32]) -> bool {
    pids.iter().any(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.trim() == "kube-apiserver"
    })
}
