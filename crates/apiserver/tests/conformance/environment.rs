//! By which variables a real server is found; tried with this crate's in its place.

use std::process::{Command, Output};

use netqos_apiserver::{ApiServer, Cluster};

/// Runs the suite for real servers in a process with nothing but these variables.
fn suite(variables: &[(&str, &str)]) -> (bool, String) {
    run("a_real_api_server_behaves_the_same", variables)
}

/// The same of one test.
fn run(test: &str, variables: &[(&str, &str)]) -> (bool, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env_clear()
        .env("KUBEBUILDER_ASSETS", "/nowhere")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = [stdout, stderr].concat();
    (status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn where_no_real_server_is_named_the_suite_is_skipped_aloud() {
    let (passed, text) = suite(&[]);
    assert!(passed, "{text}");
    assert!(text.contains("skipped: no real API server"), "{text}");
}

#[test]
fn where_one_is_required_and_none_is_named_the_suite_fails() {
    let (passed, text) = suite(&[("NETQOS_REQUIRE_REAL", "1")]);
    assert!(!passed, "{text}");
    assert!(text.contains("KUBEBUILDER_ASSETS"), "{text}");
}

/// What the tests of all other crates begin with.
#[test]
fn a_cluster_is_started() {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(async {
        let cluster = Cluster::start().await.unwrap();
        let client = cluster.client("test").await.unwrap();
        client.apiserver_version().await.unwrap();
    });
}

#[test]
fn where_one_is_required_no_other_takes_its_place() {
    let test = "environment::a_cluster_is_started";
    let (passed, text) = run(test, &[]);
    assert!(passed && text.contains("1 passed"), "{text}");
    let (passed, text) = run(test, &[("NETQOS_REQUIRE_REAL", "1")]);
    assert!(!passed, "{text}");
    assert!(text.contains("KUBEBUILDER_ASSETS"), "{text}");
    let server = ApiServer::start().unwrap();
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, server.kubeconfig("suite")).unwrap();
    let of_there = [
        ("NETQOS_REQUIRE_REAL", "1"),
        ("USE_EXISTING_CLUSTER", "true"),
        ("KUBECONFIG", path.to_str().unwrap()),
    ];
    let (passed, text) = run(test, &of_there);
    assert!(passed && text.contains("1 passed"), "{text}");
    let said = format!("a real API server: that of {}", path.display());
    assert!(text.contains(&said), "{text}");
}

#[test]
fn a_server_that_does_not_start_says_why() {
    let (passed, text) = suite(&[
        ("TEST_ASSET_ETCD", "/bin/true"),
        ("TEST_ASSET_KUBE_APISERVER", "/bin/false"),
    ]);
    assert!(!passed, "{text}");
    assert!(text.contains("kube-apiserver ended with"), "{text}");
}

/// A real etcd, and in place of the server something that asks it as one would, and says by which flags
/// it was started.
#[test]
fn etcd_is_started_and_a_server_is_told_of_it() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path);
    let Some(etcd) = folders.find_map(|it| Some(it.join("etcd")).filter(|it| it.exists())) else {
        eprintln!("skipped: there is no etcd in $PATH (Debian's package etcd-server)");
        return;
    };
    let folder = tempfile::TempDir::new().unwrap();
    let server = folder.path().join("kube-apiserver");
    std::fs::write(&server, SERVER).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&server, executable).unwrap();
    let (passed, text) = suite(&[
        ("TEST_ASSET_ETCD", etcd.to_str().unwrap()),
        ("TEST_ASSET_KUBE_APISERVER", server.to_str().unwrap()),
        ("PATH", path.to_str().unwrap()),
    ]);
    assert!(!passed, "{text}");
    assert!(text.contains("kube-apiserver ended with"), "{text}");
    for right in [
        "etcd says {\"health\":\"true\"",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--secure-port=",
        "--token-auth-file=",
        "--service-account-issuer=",
        "--service-account-signing-key-file=",
        "-----BEGIN PUBLIC KEY-----",
        "netqos-testkit,admin,admin,system:masters",
    ] {
        assert!(text.contains(right), "{right}: {text}");
    }
    // Nothing is left of it.
    let of_etcd = text
        .split("--etcd-servers=http://127.0.0.1:")
        .nth(1)
        .unwrap();
    let digits: String = of_etcd.chars().take_while(char::is_ascii_digit).collect();
    let port: u16 = digits.parse().unwrap();
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
}

const SERVER: &str = r#"#!/bin/bash
for flag in "$@"; do
    echo "$flag"
    case "$flag" in
        --etcd-servers=http://*) etcd=${flag#*http://} ;;
        --token-auth-file=* | --service-account-key-file=*) cat "${flag#*=}" ;;
    esac
done
for try in $(seq 100); do
    exec 3<>"/dev/tcp/${etcd%:*}/${etcd#*:}" && break
    sleep 0.1
done 2>/dev/null
printf 'GET /health HTTP/1.0\r\n\r\n' >&3
echo "etcd says $(tail -n 1 <&3)"
exit 3
"#;

#[test]
fn a_cluster_that_is_there_is_used_and_left_as_it_was() {
    let server = ApiServer::start().unwrap();
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, server.kubeconfig("suite")).unwrap();
    let (passed, text) = suite(&[
        ("USE_EXISTING_CLUSTER", "true"),
        ("KUBECONFIG", path.to_str().unwrap()),
    ]);
    assert!(passed, "{text}");
    assert!(
        text.contains("behaviours tried on a real API server"),
        "{text}"
    );
    let requests = server.requests();
    assert!(requests.iter().any(|request| request.client == "suite"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = server.client("test").await.unwrap();
        let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> =
            kube::Api::all(client.clone());
        let left = namespaces.list(&Default::default()).await.unwrap().items;
        assert_eq!(left.len(), 4, "{left:?}");
    });
}
