//! An emulated machine that boots a kernel, runs one test, and stops.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

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
    test: &str,
    patience: Duration,
) -> anyhow::Result<Output> {
    let mut machine = Command::new("qemu-system-x86_64")
        .args(["-machine", "q35", "-cpu", "max", "-smp", "1", "-m", "1024"])
        .args([
            "-accel",
            "tcg,thread=single",
            "-icount",
            "shift=0,sleep=off",
        ])
        .args([
            "-display", "none", "-monitor", "none", "-serial", "stdio", "-nic", "none",
        ])
        .args(["-no-reboot", "-kernel"])
        .arg(kernel.image())
        .arg("-initrd")
        .arg(image.path())
        .arg("-append")
        .arg(format!(
            "console=ttyS0 quiet panic=-1 kernel.unprivileged_bpf_disabled=2 netqos.test={test}"
        ))
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
