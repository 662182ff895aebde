//! A process, and what the kernel says that it takes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// A process of the benchmark's, which is killed when it is let go.
pub struct Process(Child);

impl Process {
    /// Starts it with `variables` in its environment besides; what fails is shown.
    pub fn start(program: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Result<Self> {
        ensure!(
            program.exists(),
            "{} is missing; `make build` makes it",
            program.display()
        );
        let mut command = Command::new(program);
        command
            .args(arguments)
            .args(["--log-level", "error"])
            .envs(variables.iter().copied());
        Self::spawn(&mut command)
    }

    /// Starts it by this command; what fails is shown.
    pub fn spawn(command: &mut Command) -> Result<Self> {
        let program = command.get_program().to_owned();
        let child = command
            .stderr(Stdio::inherit())
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        Ok(Self(child))
    }

    /// Ends it as the kubelet ends a container, and waits for that.
    #[cfg(test)]
    pub fn end(&self) -> Result<()> {
        let killed = Command::new("kill").arg(self.0.id().to_string()).status()?;
        ensure!(killed.success(), "kill: {killed}");
        while !fs::read_to_string(self.file("stat"))?.contains(") Z ") {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// For how long it has worked: in hundredths of a second, as `/proc/PID/stat` has it.
    pub fn processor_time(&self) -> Result<Duration> {
        // utime and stime, the 14th and 15th of all.
        self.ticks(&[11, 12])
    }

    /// For how long its threads have run, to the nanosecond. Those that have ended are not counted.
    pub fn run_time(&self) -> Result<Duration> {
        let mut nanos = 0;
        for thread in fs::read_dir(self.file("task"))? {
            // It may end meanwhile.
            let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else {
                continue;
            };
            let run = text.split_whitespace().next().context("schedstat")?;
            nanos += run.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanos))
    }

    /// The same with all children of it that have ended, of which the kernel counts hundredths of a second.
    pub fn run_time_with_children(&self) -> Result<Duration> {
        // cutime and cstime, the 16th and 17th.
        Ok(self.run_time()? + self.ticks(&[13, 14])?)
    }

    /// The sum of fields of `/proc/PID/stat`, counted from behind the name.
    fn ticks(&self, numbers: &[usize]) -> Result<Duration> {
        let stat = fs::read_to_string(self.file("stat"))?;
        // The name, in brackets, may have anything in it.
        let (_, rest) = stat.rsplit_once(')').context("/proc/PID/stat")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let mut ticks = 0;
        for number in numbers {
            let field = fields.get(*number).context("/proc/PID/stat is short")?;
            ticks += field.parse::<u64>()?;
        }
        Ok(Duration::from_millis(ticks * 10))
    }

    /// Bytes in memory now.
    pub fn resident(&self) -> Result<u64> {
        self.status("VmRSS:")
    }

    /// The most bytes that it had in memory since it was started.
    pub fn peak(&self) -> Result<u64> {
        self.status("VmHWM:")
    }

    fn status(&self, name: &str) -> Result<u64> {
        let status = fs::read_to_string(self.file("status"))?;
        let mut lines = status.lines();
        let line = lines.find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"));
        let kilobytes: u64 = line.with_context(|| format!("no {name}"))?.parse()?;
        Ok(kilobytes * 1024)
    }

    fn file(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.0.id().to_string()).join(name)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
