//! Ctrl-C, as long as statements run.

use std::io;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use futures::FutureExt;
use tokio::sync::Notify;

/// Remembers that Ctrl-C was pressed until somebody asks.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    pressed: Arc<Notify>,
    listener: Option<SpawnedTask<()>>,
}

impl Interrupts {
    /// From now on, Ctrl-C no longer ends the process.
    pub(crate) fn listen(&mut self) -> io::Result<()> {
        if self.listener.is_some() {
            return Ok(());
        }
        let mut signals = signals()?;
        let pressed = Arc::clone(&self.pressed);
        self.listener = Some(SpawnedTask::spawn(async move {
            while signals.recv().await.is_some() {
                pressed.notify_one();
            }
        }));
        Ok(())
    }

    /// Waits until Ctrl-C is pressed, or was since the last time.
    pub(crate) async fn next(&self) {
        self.pressed.notified().await;
    }

    /// Forgets that it was pressed.
    pub(crate) fn forget(&self) {
        let _ = self.next().now_or_never();
    }
}

#[cfg(unix)]
fn signals() -> io::Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
}

#[cfg(windows)]
fn signals() -> io::Result<tokio::signal::windows::CtrlC> {
    tokio::signal::windows::ctrl_c()
}
