"""Integrations."""

from __future__ import annotations

from pivec.integrations.novelty import BehaviourArchive, behaviour_named, behaviour_text

__all__ = ["BehaviourArchive", "behaviour_named", "behaviour_text"]
