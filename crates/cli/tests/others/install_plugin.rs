//! The plugin in its place, and out of it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::Command;

use netqos_testkit::run_killed_at;

use crate::{assert_code, bandwidth, netqos, node, run, stderr, succeed};

const OLD: &str = "#!/bin/sh\n# CNI bandwidth plugin v1.3.0\n";

fn install(from: &Path, to: &Path) -> String {
    let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
    let output = run(&["install-plugin", "--from", from, "--to", to]);
    succeed(&output)
}

fn remove(to: &Path) -> String {
    let output = run(&["install-plugin", "--remove", "--to", to.to_str().unwrap()]);
    succeed(&output)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn what_was_there_is_kept_and_comes_back() {
    let plugin = bandwidth();
    let folder = tempfile::tempdir().unwrap();
    let (place, kept) = (
        folder.path().join("bandwidth"),
        folder.path().join("bandwidth.before-netqos"),
    );
    fs::write(&place, OLD).unwrap();
    assert!(install(&plugin, folder.path()).contains("kept"));
    assert_eq!(fs::read(&place).unwrap(), fs::read(&plugin).unwrap());
    assert_eq!(
        fs::metadata(&place).unwrap().permissions().mode() & 0o777,
        0o755
    );
    assert_eq!(fs::read_to_string(&kept).unwrap(), OLD);

    // Again: nothing is done. Another version of ours: what was kept stays kept.
    assert!(install(&plugin, folder.path()).contains("already"));
    let mut other = fs::read(&plugin).unwrap();
    other.push(0);
    let newer = folder.path().join("newer");
    fs::write(&newer, &other).unwrap();
    assert!(install(&newer, folder.path()).contains("another version"));
    fs::remove_file(&newer).unwrap();
    assert_eq!(fs::read(&place).unwrap(), other);
    assert_eq!(fs::read_to_string(&kept).unwrap(), OLD);
    assert_eq!(
        names(folder.path()),
        ["bandwidth", "bandwidth.before-netqos"]
    );

    assert!(remove(folder.path()).contains("back"));
    assert_eq!(fs::read_to_string(&place).unwrap(), OLD);
    assert_eq!(names(folder.path()), ["bandwidth"]);
    // Not ours, so it stays.
    assert!(remove(folder.path()).contains("left"));
    assert_eq!(names(folder.path()), ["bandwidth"]);
}

#[test]
fn where_nothing_was_nothing_is_left() {
    let plugin = bandwidth();
    let folder = tempfile::tempdir().unwrap();
    install(&plugin, folder.path());
    assert_eq!(names(folder.path()), ["bandwidth"]);
    remove(folder.path());
    assert_eq!(names(folder.path()), [""; 0]);
    assert!(remove(folder.path()).contains("not there"));
}

#[test]
fn a_link_to_a_plugin_elsewhere_is_replaced_and_not_followed() {
    let plugin = bandwidth();
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let target = elsewhere.path().join("bandwidth");
    fs::write(&target, OLD).unwrap();
    let place = folder.path().join("bandwidth");
    symlink(&target, &place).unwrap();
    install(&plugin, folder.path());
    assert_eq!(fs::read_to_string(&target).unwrap(), OLD);
    assert!(fs::symlink_metadata(&place).unwrap().is_file());
    remove(folder.path());
    assert_eq!(fs::read_link(&place).unwrap(), target);
}

#[test]
fn what_a_killed_one_left_is_no_hindrance() {
    let plugin = bandwidth();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("bandwidth"), OLD).unwrap();
    // Killed after the second name was given, and before ours came.
    fs::hard_link(at("bandwidth"), at("bandwidth.before-netqos")).unwrap();
    fs::hard_link(at("bandwidth"), at(".bandwidth.netqos-old")).unwrap();
    fs::write(at(".bandwidth.netqos-new"), "half").unwrap();
    install(&plugin, folder.path());
    assert_eq!(
        names(folder.path()),
        ["bandwidth", "bandwidth.before-netqos"]
    );
    assert_eq!(
        fs::read_to_string(at("bandwidth.before-netqos")).unwrap(),
        OLD
    );
    assert_eq!(
        fs::read(at("bandwidth")).unwrap(),
        fs::read(&plugin).unwrap()
    );
}

/// A container sees the directory, and no target outside of it.
#[test]
fn dangling_link_is_kept_and_restored() {
    let plugin = bandwidth();
    for target in ["/usr/lib/cni/not-here/bandwidth", "../not-here/bandwidth"] {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("bandwidth");
        symlink(target, &place).unwrap();
        assert!(install(&plugin, folder.path()).contains("kept"));
        assert!(fs::symlink_metadata(&place).unwrap().is_file());
        let both = ["bandwidth", "bandwidth.before-netqos"];
        assert_eq!(names(folder.path()), both);
        assert!(remove(folder.path()).contains("back"));
        assert_eq!(fs::read_link(&place).unwrap(), Path::new(target));
        assert_eq!(names(folder.path()), ["bandwidth"]);
    }
}

#[test]
fn remove_after_killed_install_leaves_only_the_foreign_plugin() {
    let plugin = bandwidth();
    // The files at each step of an install over a foreign plugin.
    let steps: [&[(&str, &str)]; 4] = [
        &[("bandwidth", OLD), (".bandwidth.netqos-new", "half")],
        &[
            ("bandwidth", OLD),
            (".bandwidth.netqos-new", "whole"),
            (".bandwidth.netqos-old", "LINK"),
        ],
        &[
            ("bandwidth", OLD),
            (".bandwidth.netqos-new", "whole"),
            ("bandwidth.before-netqos", "LINK"),
        ],
        &[("bandwidth", "OURS"), ("bandwidth.before-netqos", OLD)],
    ];
    for step in steps {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, content) in step {
            match *content {
                "LINK" => fs::hard_link(at("bandwidth"), at(name)).unwrap(),
                "OURS" => drop(fs::copy(&plugin, at(name)).unwrap()),
                content => fs::write(at(name), content).unwrap(),
            }
        }
        remove(folder.path());
        assert_eq!(names(folder.path()), ["bandwidth"], "{step:?}");
        assert_eq!(
            fs::read_to_string(at("bandwidth")).unwrap(),
            OLD,
            "{step:?}"
        );
    }
}

/// On some nodes plugins and their directory belong to another user, and `fs.protected_hardlinks` denies hard links.
/// The init container has these two capabilities only.
#[test]
fn install_over_files_of_another_user_needs_two_capabilities() {
    const OTHER: u32 = 1001;
    let plugin = bandwidth();
    let install_with = |capabilities: &str, to: &Path| {
        let netqos = env!("CARGO_BIN_EXE_netqos");
        let bounding = format!("--bounding-set=-all{capabilities}");
        Command::new("setpriv")
            .args([
                &bounding,
                "--inh-caps=-all",
                netqos,
                "install-plugin",
                "--from",
            ])
            .args([&*plugin, Path::new("--to"), to])
            .output()
            .unwrap()
    };
    for is_folder_theirs in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("bandwidth");
        fs::write(&place, OLD).unwrap();
        chown(&place, Some(OTHER), Some(OTHER)).unwrap();
        if is_folder_theirs {
            chown(folder.path(), Some(OTHER), Some(OTHER)).unwrap();
        }
        let refused = install_with("", folder.path());
        assert_code(&refused, 1);
        assert!(stderr(&refused).contains("FOWNER"), "{}", stderr(&refused));
        assert_eq!(names(folder.path()), ["bandwidth"]);
        let done = install_with(",+dac_override,+fowner", folder.path());
        assert!(done.status.success(), "{}", stderr(&done));
        assert_eq!(
            names(folder.path()),
            ["bandwidth", "bandwidth.before-netqos"]
        );
        remove(folder.path());
        assert_eq!(fs::metadata(&place).unwrap().uid(), OTHER);
    }
}

#[test]
fn install_on_full_disk_changes_nothing() {
    let Some(node) = node() else { return };
    let plugin = bandwidth();
    let folder = Path::new("/run/small");
    fs::create_dir_all(folder).unwrap();
    node.run(
        "mount",
        &["-t", "tmpfs", "-o", "size=64k", "small", "/run/small"],
    )
    .unwrap();
    fs::write(folder.join("bandwidth"), OLD).unwrap();
    let (from, to) = (plugin.to_str().unwrap(), folder.to_str().unwrap());
    let output = run(&["install-plugin", "--from", from, "--to", to]);
    assert_code(&output, 1);
    assert!(
        stderr(&output).contains("free disk space"),
        "{}",
        stderr(&output)
    );
    assert_eq!(names(folder), ["bandwidth"]);
    assert_eq!(fs::read_to_string(folder.join("bandwidth")).unwrap(), OLD);
}

/// As of immutable systems, where `/opt` is.
#[test]
fn install_on_read_only_file_system_names_the_remedy() {
    let Some(node) = node() else { return };
    let plugin = bandwidth();
    let bin_dir = Path::new("/run/fixed");
    fs::create_dir_all(bin_dir).unwrap();
    let mount = |arguments: &[&str]| node.run("mount", arguments).unwrap();
    mount(&["-t", "tmpfs", "fixed", "/run/fixed"]);
    fs::write(bin_dir.join("bandwidth"), OLD).unwrap();
    mount(&["-o", "remount,ro", "/run/fixed"]);
    let (from, to) = (plugin.to_str().unwrap(), bin_dir.to_str().unwrap());
    let output = run(&["install-plugin", "--from", from, "--to", to]);
    assert_code(&output, 1);
    let said = stderr(&output);
    assert!(said.contains("Read-only file system"), "{said}");
    let remedy = "set --to (chart value cniPlugin.directory) to a writable directory";
    assert!(said.contains(remedy), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(names(bin_dir), ["bandwidth"]);
    assert_eq!(fs::read_to_string(bin_dir.join("bandwidth")).unwrap(), OLD);
}

/// Killed before each of its system calls. At no moment is there no plugin, or half of one.
#[test]
fn install_killed_at_any_system_call_is_completed_or_undone() {
    // What says that it is ours, and long enough to be written in part.
    let ours = [b"CNI bandwidth plugin netqos v".repeat(4096), vec![0]].concat();
    let directory = tempfile::tempdir().unwrap();
    let plugin = directory.path().join("plugin");
    fs::write(&plugin, &ours).unwrap();
    let bin_dir = directory.path().join("bin");
    let at = |name: &str| bin_dir.join(name);
    let killed_install = |nth| {
        let mut command = netqos();
        command.args(["install-plugin", "--from"]).arg(&plugin);
        run_killed_at(command.arg("--to").arg(&bin_dir), nth).unwrap()
    };
    let killed_remove = |nth| {
        let mut command = netqos();
        command.args(["install-plugin", "--remove", "--to"]);
        run_killed_at(command.arg(&bin_dir), nth).unwrap()
    };
    let assert_whole = |what: &str| {
        let there = fs::read(at("bandwidth")).unwrap();
        assert!(there == ours || there == OLD.as_bytes(), "{what}");
    };
    let mut moments = 0;
    loop {
        let what = format!("killed at system call {moments}");
        fs::create_dir(&bin_dir).unwrap();
        fs::write(at("bandwidth"), OLD).unwrap();
        let was_killed = killed_install(moments);
        assert_whole(&what);
        install(&plugin, &bin_dir);
        let both = ["bandwidth", "bandwidth.before-netqos"];
        assert_eq!(names(&bin_dir), both, "{what}, then install");
        assert_eq!(fs::read(at(both[0])).unwrap(), ours, "{what}, then install");
        let kept = fs::read_to_string(at(both[1])).unwrap();
        assert_eq!(kept, OLD, "{what}, then install");
        for is_installed in [true, false] {
            match is_installed {
                true => killed_remove(moments),
                false => killed_install(moments),
            };
            assert_whole(&what);
            remove(&bin_dir);
            assert_eq!(names(&bin_dir), ["bandwidth"], "{what}, then remove");
            let back = fs::read_to_string(at("bandwidth")).unwrap();
            assert_eq!(back, OLD, "{what}, then remove");
        }
        fs::remove_dir_all(&bin_dir).unwrap();
        if !was_killed {
            break;
        }
        moments += 1;
    }
    println!("{moments} moments");
    assert!(moments > 20, "{moments}: the command was not watched");
}

#[test]
fn what_is_not_the_plugin_is_not_installed() {
    let folder = tempfile::tempdir().unwrap();
    let (place, from) = (folder.path().join("bandwidth"), folder.path().join("from"));
    fs::write(&place, OLD).unwrap();
    fs::write(&from, OLD).unwrap();
    let (from, to) = (from.to_str().unwrap(), folder.path().to_str().unwrap());
    let output = run(&["install-plugin", "--from", from, "--to", to]);
    assert_code(&output, 1);
    assert!(stderr(&output).contains("--from"), "{}", stderr(&output));
    assert_eq!(names(folder.path()), ["bandwidth", "from"]);
    let output = run(&["install-plugin", "--from", from, "--to", "/nowhere"]);
    assert_code(&output, 1);
}
