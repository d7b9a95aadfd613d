//! What the process takes of the machine, as `/proc` says it. Where there is none, all numbers are zero.

use std::fs;

use super::sys;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessUse {
    pub resident_bytes: u64,
    pub cpu_seconds: f64,
    pub files_open: u64,
    /// Since 1970.
    pub started_seconds: f64,
}

impl ProcessUse {
    pub(super) fn now() -> ProcessUse {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let files_open = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let mut all = read(
            &text("/proc/self/stat"),
            &text("/proc/stat"),
            sys::clock_ticks(),
        );
        all.resident_bytes = resident(&text("/proc/self/status"));
        all.files_open = files_open as u64;
        all
    }
}

fn read(own: &str, machine: &str, ticks: f64) -> ProcessUse {
    // The name of the program may have blanks and parentheses; what is behind it has not.
    let fields: Vec<f64> = own
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(0.0))
        .collect();
    // From proc(5), less the two fields in front.
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0.0) / ticks.max(1.0);
    let booted = machine
        .lines()
        .find_map(|line| line.strip_prefix("btime "))
        .and_then(|seconds| seconds.trim().parse::<f64>().ok());
    ProcessUse {
        cpu_seconds: field(14) + field(15),
        started_seconds: booted.map_or(0.0, |booted| booted + field(22)),
        ..ProcessUse::default()
    }
}

fn resident(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_proc_are_found_behind_any_name() {
        let own = "7 (a ) b) S 1 7 7 0 -1 4194560 2000 0 0 0 150 50 0 0 20 0 9 0 4200 10 20";
        let read = read(own, "cpu 1\nbtime 1000\nprocesses 3\n", 100.0);
        assert_eq!((read.cpu_seconds, read.started_seconds), (2.0, 1042.0));
        assert_eq!(resident("Name:\tx\nVmRSS:\t   2048 kB\n"), 2048 * 1024);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_memory_and_files() {
        let now = ProcessUse::now();
        assert!(
            now.resident_bytes > 1 << 20 && now.files_open > 0,
            "{now:?}"
        );
        assert!(now.started_seconds > 1e9, "{now:?}");
    }
}
