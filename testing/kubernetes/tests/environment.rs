//! Where the executables come from.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use netqos_kubernetes::{ApiServer, Binaries};

#[tokio::test]
async fn server_starts() {
    let server = ApiServer::start().await.unwrap();
    let version = server.client().unwrap().apiserver_version().await.unwrap();
    assert_eq!(version.git_version, server.version());
}

#[test]
fn helm_is_executable() {
    let output = Command::new(Binaries::tool("helm").unwrap())
        .arg("version")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("Version:\"v4."), "{output:?}");
}

/// Runs one of these tests in a process with these variables.
fn run(test: &str, variables: &[(&str, &str)]) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env_remove("KUBEBUILDER_ASSETS")
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

/// The output of a server that cannot start with these variables.
fn failure(variables: &[(&str, &str)]) -> String {
    let output = run("server_starts", variables);
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[test]
fn tool_that_named_directory_lacks_is_built() {
    let output = run("helm_is_executable", &[("KUBEBUILDER_ASSETS", "/nowhere")]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn named_tool_that_does_not_exist_is_an_error() {
    let output = run("helm_is_executable", &[("TEST_ASSET_HELM", "/nowhere")]);
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    let expected = "cannot find helm: /nowhere (set by TEST_ASSET_HELM) is not a file";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn named_directory_without_binaries_is_an_error_with_remedy() {
    let text = failure(&[("KUBEBUILDER_ASSETS", "/nowhere")]);
    assert!(
        text.contains("cannot find kube-apiserver in /nowhere"),
        "{text}"
    );
    assert!(text.contains("make kubernetes"), "{text}");
}

#[test]
fn named_file_that_is_not_kube_apiserver_is_an_error() {
    let text = failure(&[
        ("TEST_ASSET_KUBE_APISERVER", "/bin/true"),
        ("TEST_ASSET_ETCD", "/bin/true"),
    ]);
    assert!(text.contains("/bin/true is not kube-apiserver"), "{text}");
}

/// A directory with a kube-apiserver that prints a version, and then ends.
fn imposter(version: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, script) in [
        (
            "kube-apiserver",
            format!(
                "#!/bin/sh\n[ $1 = --version ] && echo Kubernetes {version} && exit\necho no disk; exit 3\n"
            ),
        ),
        ("etcd", "#!/bin/sh\nexec sleep 60\n".to_owned()),
    ] {
        let path = directory.path().join(name);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    directory
}

#[test]
fn binary_older_than_supported_is_an_error() {
    let directory = imposter("v1.33.6");
    let text = failure(&[("KUBEBUILDER_ASSETS", directory.path().to_str().unwrap())]);
    assert!(
        text.contains("is v1.33.6; netqos supports v1.34 and newer"),
        "{text}"
    );
}

#[test]
fn server_that_ends_is_an_error_with_its_log() {
    let directory = imposter("v1.37.2");
    let text = failure(&[("KUBEBUILDER_ASSETS", directory.path().to_str().unwrap())]);
    assert!(
        text.contains("kube-apiserver ended with exit status: 3"),
        "{text}"
    );
    assert!(text.contains("no disk"), "{text}");
}
