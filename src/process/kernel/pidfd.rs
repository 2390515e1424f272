//! Handles of processes (pidfds): opened while a process lives, asked afterwards how it ended. The only
//! file with `unsafe` in it.

#![allow(
    unsafe_code,
    reason = "no crate that we use has the ioctl PIDFD_GET_INFO; the proof stands where it is called"
)]

use std::io;
use std::os::fd::OwnedFd;

/// What a pidfd tells of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The process is gone, and this is what wait(2) gave for it.
    Ended(i32),
    /// It lives, or its parent has not asked for its end yet.
    NotYet,
    /// This kernel does not tell: it is older than Linux 6.15.
    Never,
}

/// Opens a process.
///
/// # Errors
/// What the kernel says: there is no such process, no descriptor is left, this is no Linux.
pub(super) fn open(pid: u32) -> io::Result<OwnedFd> {
    imp::open(pid)
}

/// How a process ended that was opened while it lived.
pub(super) fn told(pidfd: &OwnedFd) -> Told {
    imp::told(pidfd)
}

#[cfg(target_os = "linux")]
mod imp {
    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::Told;

    /// `struct pidfd_info` of `linux/pidfd.h` in its first size, 64 bytes, which every kernel that
    /// knows the request takes.
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Info {
        /// What is asked for, then what was answered.
        mask: u64,
        cgroup: u64,
        /// pid, tgid, ppid, and the user and group ids.
        ids: [u32; 11],
        /// As wait(2) has it.
        exit_code: i32,
    }

    const _: () = assert!(size_of::<Info>() == 64, "the size is part of the request");

    /// `PIDFD_INFO_EXIT`.
    const EXIT: u64 = 1 << 3;

    /// `PIDFD_GET_INFO`.
    const GET_INFO: Opcode = opcode::read_write::<Info>(0xff, 11);

    pub fn open(pid: u32) -> io::Result<OwnedFd> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(pidfd_open(pid, PidfdFlags::empty())?)
    }

    pub fn told(pidfd: &OwnedFd) -> Told {
        let mut info = Info {
            mask: EXIT,
            ..Info::default()
        };
        // SAFETY: the request reads and writes one `struct pidfd_info` of the size that the opcode
        // carries, 64 bytes, and `Info` has that layout: `repr(C)`, no padding, every bit pattern is
        // valid in each field. A descriptor that is no pidfd, and a kernel that does not know the
        // request, refuse it and write nothing.
        let answer = unsafe { ioctl(pidfd, Updater::<{ GET_INFO }, Info>::new(&mut info)) };
        match answer {
            Ok(()) if info.mask & EXIT != 0 => Told::Ended(info.exit_code),
            // Until a process has been waited for, kernels that tell how it ended say that they do
            // not know it, or answer without it. So do those from 6.13 on, which never tell.
            Ok(()) | Err(rustix::io::Errno::SRCH) => Told::NotYet,
            Err(_) => Told::Never,
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::io;
    use std::os::fd::OwnedFd;

    use super::Told;

    pub fn open(_pid: u32) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn told(_pidfd: &OwnedFd) -> Told {
        Told::Never
    }
}
