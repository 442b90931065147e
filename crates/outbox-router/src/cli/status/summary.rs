//! What another command has to know of the state of slot and router: whether events flow, and if
//! not, why, in the words of `status`.

use relay::{Class, Code};

use super::{
    finding::Finding,
    reading::read,
    recorded::{AtRisk, stops_nothing},
    router,
    sample::is_lost,
    verdict::judge,
};
use crate::{
    cli::{TaskError, connect::Access},
    config::Config,
};

/// See the module's header.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Summary {
    pub(in crate::cli) flow: Flow,
    /// What `status` finds first of all that stops events.
    pub(in crate::cli) first: Option<Why>,
    /// What it finds that may have left rows out.
    pub(in crate::cli) left_out: Option<Why>,
    /// The gaps that nobody has accepted.
    pub(in crate::cli) gaps: Vec<OpenGap>,
}

/// Whether what the slot has not confirmed is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Flow {
    /// A router reads the slot, and does not say that it is stuck.
    Running,
    /// Nobody reads the slot, or its router is stuck.
    Stopped,
    /// There is no slot, or it is lost: what was not sent will not be.
    NoSlot,
}

/// What is wrong, and what to type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Why {
    pub(in crate::cli) code: Option<String>,
    pub(in crate::cli) message: String,
    pub(in crate::cli) hint: Option<String>,
}

impl Why {
    fn of(finding: &Finding) -> Self {
        let Finding { code, message, hint, stops: _ } = finding;
        Self {
            code: code.clone(),
            message: message.clone(),
            hint: hint.as_deref().map(str::to_owned),
        }
    }
}

/// A gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct OpenGap {
    /// `CODE@LSN`.
    pub(in crate::cli) name: String,
    pub(in crate::cli) code: String,
    pub(in crate::cli) message: String,
    pub(in crate::cli) hint: Option<String>,
    pub(in crate::cli) at_risk: AtRisk,
}

/// Reads as `status` does.
///
/// # Errors
/// PostgreSQL cannot be asked.
pub(in crate::cli) async fn summary(
    config: &Config,
    access: Access<'_>,
) -> Result<Summary, TaskError> {
    let status = Box::pin(read(config, access)).await?;
    let verdict = judge(&status, config);
    let gap = |open: &super::recorded::OpenEntry| {
        Some(OpenGap {
            name: open.name.clone(),
            code: open.code().to_owned(),
            message: open.message.clone(),
            hint: open.hint.as_deref().map(str::to_owned),
            at_risk: open.at_risk.clone()?,
        })
    };
    let gaps = status.record.open().iter().filter_map(gap).collect();
    let is_stuck = router::stuck(status.router.as_ref()).is_some();
    let slot = match status.sample {
        Ok(sample) => sample.slot,
        Err(failure) => return Err(TaskError::Failure(failure)),
    };
    let flow = match slot {
        None => Flow::NoSlot,
        Some(slot) if is_lost(&slot) => Flow::NoSlot,
        Some(slot) if slot.holder.is_none() || is_stuck => Flow::Stopped,
        Some(_) => Flow::Running,
    };
    let class = |finding: &Finding| finding.code.as_deref().and_then(Code::parse).map(Code::class);
    let stops =
        |finding: &&Finding| finding.stops && !finding.code.as_deref().is_some_and(stops_nothing);
    let leaves_out = |finding: &&Finding| class(finding) == Some(Class::Gap);
    let first = verdict.findings.iter().find(stops).map(Why::of);
    let left_out = verdict.findings.iter().find(leaves_out).map(Why::of);
    Ok(Summary { flow, first, left_out, gaps })
}
