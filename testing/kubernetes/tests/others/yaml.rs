//! YAML and JSON: the table of what kubectl reads, which netqos' reader is held to, read by kubectl.

use std::fs;
use std::process::Command;

use netqos_kubernetes::Binaries;
use netqos_promises::{kubectl_rows, without_head};
use serde_json::{Deserializer, Value};

#[test]
fn kubectl_reads_what_the_table_says() {
    let directory = tempfile::tempdir().unwrap();
    let rows = kubectl_rows();
    let file = |number: usize| directory.path().join(format!("{number:03}.yaml"));
    for (number, row) in rows.iter().enumerate() {
        fs::write(file(number), &row.text).unwrap();
    }
    // An empty patch, which needs no API server. It goes on behind a file that it does not read.
    let output = Command::new(Binaries::tool("kubectl").unwrap())
        .env("KUBECONFIG", directory.path().join("none"))
        .args([
            "patch",
            "--local",
            "--type=merge",
            "--patch={}",
            "--output=json",
            "-f",
        ])
        .arg(directory.path())
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let mut read = vec![Vec::new(); rows.len()];
    for object in Deserializer::from_slice(&output.stdout).into_iter::<Value>() {
        let object = object.unwrap();
        let number = object["metadata"]["name"]
            .as_str()
            .and_then(|it| it.strip_prefix("row-"));
        let number: usize = number.unwrap().parse().unwrap();
        read[number].push(without_head(number, object));
    }
    for (number, (row, read)) in rows.iter().zip(read).enumerate() {
        let is_refused = errors.contains(&*file(number).to_string_lossy());
        assert_eq!(
            (&read, is_refused),
            (&row.objects, row.is_refused),
            "{:?}\n{errors}",
            row.text
        );
    }
}
