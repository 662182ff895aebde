//! An emulated machine that boots a kernel, runs one test, and stops.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::cell::Row;
use crate::image::Image;
use crate::kernel::Unpacked;

/// What `guest/init` prints around a test's own output.
const BEGIN: &str = "netqos-guest: begin";
const END: &str = "netqos-guest: end ";
/// The last lines of the serial line that are shown where there is no answer.
const SHOWN: usize = 40;

/// What a test printed, and how it ended.
#[derive(Debug)]
pub struct Output {
    pub code: i32,
    pub text: String,
}

/// Boots it, and waits until it stops.
///
/// # Errors
/// Returns an error, with the end of what its serial line said, if it stops without an answer or takes
/// longer than this.
pub fn run(
    kernel: &Unpacked,
    image: &Image,
    row: &Row,
    patience: Duration,
) -> anyhow::Result<Output> {
    let mut machine = emulator(row.machine.card_queues)
        .args(["-machine", "q35", "-cpu", "max", "-m", "1024"])
        .args([
            "-accel",
            "tcg,thread=single",
            "-icount",
            "shift=0,sleep=off",
        ])
        .args(["-display", "none", "-monitor", "none", "-serial", "stdio"])
        .args(["-no-reboot", "-kernel"])
        .arg(kernel.image())
        .arg("-initrd")
        .arg(image.path())
        .arg("-append")
        .arg(command_line(row))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("qemu-system-x86_64; scripts/install-dependencies installs it")?;
    let console = machine.stdout.take().context("no pipe")?;
    let reader = thread::spawn(move || {
        let lines = BufReader::new(console).split(b'\n').map_while(Result::ok);
        let text = |line: Vec<u8>| String::from_utf8_lossy(&line).trim_end().to_owned();
        lines.map(text).collect::<Vec<_>>()
    });
    let began = Instant::now();
    let in_time = loop {
        if machine.try_wait()?.is_some() {
            break true;
        }
        if began.elapsed() > patience {
            machine.kill()?;
            machine.wait()?;
            break false;
        }
        thread::sleep(Duration::from_millis(100));
    };
    let lines = reader
        .join()
        .ok()
        .context("reading its serial line panicked")?;
    let begin = lines.iter().position(|line| line.ends_with(BEGIN));
    let end = lines.iter().position(|line| line.starts_with(END));
    if let (Some(begin), Some(end)) = (begin, end) {
        let code = lines[end][END.len()..]
            .parse()
            .context("the test's exit code")?;
        let text = lines[begin + 1..end].join("\n");
        return Ok(Output { code, text });
    }
    let shown = lines[lines.len().saturating_sub(SHOWN)..].join("\n");
    match in_time {
        true => bail!("it stopped without an answer:\n{shown}"),
        false => bail!("no answer within {} s:\n{shown}", patience.as_secs()),
    }
}

/// The kernel's command line. `guest/init` reads the words that begin with `netqos.`.
fn command_line(row: &Row) -> String {
    let machine = &row.machine;
    let mut words = vec![
        "console=ttyS0 quiet panic=-1 kernel.unprivileged_bpf_disabled=2".to_owned(),
        machine.command_line.to_owned(),
        format!("netqos.test={}", row.test),
        format!("netqos.sysctls={}", machine.sysctls.join(",")),
    ];
    let arguments = machine.arguments.split_whitespace();
    words.extend(arguments.map(|it| format!("netqos.{it}")));
    words.join(" ")
}

/// QEMU, with two network cards on one wire that have this number of queues.
fn emulator(card_queues: u8) -> Command {
    const QEMU: &str = "qemu-system-x86_64";
    if card_queues == 0 {
        let mut command = Command::new(QEMU);
        command.args(["-nic", "none", "-smp", "1"]);
        return command;
    }
    // Only taps have queues. They are in a network namespace of QEMU's own, and go with it.
    let queues = match card_queues {
        1 => "",
        _ => "multi_queue",
    };
    let script = format!(
        "ip link add wire type bridge && ip link set wire up && for card in card0 card1; do \
         ip tuntap add $card mode tap {queues} && ip link set $card master wire up || exit; done && \
         exec \"$@\""
    );
    let mut command = Command::new("unshare");
    command.args(["--net", "--map-root-user", "sh", "-c", &script, "sh", QEMU]);
    command.args(["-smp", &card_queues.to_string()]);
    for card in ["card0", "card1"] {
        let queues =
            format!("tap,id={card},ifname={card},script=no,downscript=no,queues={card_queues}");
        let vectors = 2 * u32::from(card_queues) + 2;
        let device = format!("virtio-net-pci,netdev={card},mq=on,vectors={vectors},romfile=");
        command.args(["-netdev", &queues, "-device", &device]);
    }
    command
}

impl Output {
    /// The last value that the test printed by `observe NAME VALUE`.
    pub fn value(&self, name: &str) -> Option<&str> {
        let mut values = self.text.lines().filter_map(|line| {
            let (of, value) = line
                .strip_prefix("@ ")?
                .split_once(' ')
                .unwrap_or((&line[2..], ""));
            (of == name).then_some(value)
        });
        values.next_back()
    }

    /// The same.
    ///
    /// # Errors
    /// Returns an error if the test did not print it.
    pub fn required(&self, name: &str) -> anyhow::Result<&str> {
        let value = self.value(name);
        value.with_context(|| format!("the test did not say {name}; it ended with {}", self.code))
    }
}
