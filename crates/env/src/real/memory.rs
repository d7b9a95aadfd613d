//! How much memory there is: that of the machine, or what the control group of the process is granted of it.

use std::fs;

use super::sys;

/// Bytes of memory this process may count on; 0 where it is not known.
pub(super) fn bytes() -> u64 {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = |path: String| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    limit_files(&groups)
        .into_iter()
        .filter_map(limit)
        .chain(sys::memory_bytes())
        .min()
        .unwrap_or(0)
}

/// Files that may hold a limit ("max" for none), of both versions of control groups. Seen from inside a container the own group
/// is at the root.
fn limit_files(groups: &str) -> Vec<String> {
    let root = "/sys/fs/cgroup";
    let mut files = vec![
        format!("{root}/memory.max"),
        format!("{root}/memory/memory.limit_in_bytes"),
    ];
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        match (fields.next(), fields.next()) {
            (Some(""), Some(path)) => files.push(format!("{root}{path}/memory.max")),
            (Some(kinds), Some(path)) if kinds.split(',').any(|kind| kind == "memory") => {
                files.push(format!("{root}/memory{path}/memory.limit_in_bytes"));
            }
            _ => {}
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_the_process_is_asked_in_both_versions() {
        let files = limit_files(
            "4:memory:/docker/ab\n2:cpu,cpuacct:/x\n0::/system.slice/esker.service\nodd\n",
        );
        assert_eq!(
            files[2..],
            [
                "/sys/fs/cgroup/memory/docker/ab/memory.limit_in_bytes",
                "/sys/fs/cgroup/system.slice/esker.service/memory.max",
            ]
        );
        assert!(bytes() > 1 << 20);
    }
}
