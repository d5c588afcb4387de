"""The write side: every load, unload, reload, test request and experiment goes through one guard.

    from control.facade import Control

    control = Control(
        servers=lambda: runtime.servers,              # the configured servers, read at every call
        reader=FreshReader(lambda: runtime.servers),  # experiments.fresh_reader, or another ServerReader
        is_sandbox=runtime.is_sandbox,                # True only if GET /v2 gave the id this run chose
    )
    me = ui.person.me()                           # or telemetry.access.LOCAL outside pages
    control.decide("sandbox", ActionKind.UNLOAD, "resnet18", by=me)  # Decision(allowed, reason): for a button
    job = control.perform(Action(ActionKind.UNLOAD, "sandbox", "resnet18"), by=me)  # at once, in a thread
    job.record        # Record: stage and elapsed while it runs, outcome and sentence afterwards
    control.records() # what was done, newest first: the page, and the marks on charts
    control.control_mode("sandbox")          # "explicit", "none or poll", or None while nobody has asked it
    control.server_restarted("sandbox")      # call on a restart: forgets that the server refused control

A load with another configuration sends the whole effective one with changes to a list of fields:

    running = reader.config("sandbox", "batch_cost_model")                # telemetry.facts.ModelConfig
    wanted = override_config(running, Override(max_queue_delay_us=2000))  # control.override; InvalidRequest
    action = Action(ActionKind.OVERRIDE, "sandbox", "batch_cost_model", config=wanted)
    control.perform(action, by=me)   # checked again against what runs then; done when the config says so
    control.perform(Action(ActionKind.REVERT, "sandbox", "batch_cost_model"), by=me)  # unload and load

What a run changes for a while (the configurations of a comparison) is written down before it is changed:

    # None: its files say what it must get back; else the whole effective configuration
    pending = control.journal.intend(Restoration("sandbox", "batch_cost_model", None, "the run of 14:02"))
    ...
    control.journal.settled(pending)     # after it was put back (`finally:`)
    control.journal.open_restorations()  # PendingRestoration(id, restoration, since, left_over, sentence)

`intend` raises NotRecorded: then nothing may be changed. If the process is killed in between, the next one
puts it back once, through `perform` (REVERT, or OVERRIDE with the config) as `telemetry.access.PROCESS`, when
the server answers and may be written to (`control.repair`).

`control.needs_reason(server_id, kind)` is True where a person must say why (`Action.why`). The journal is on
disk with `Journal(store=JournalFile(path))`: one process writes it (`journal.refusal()` says why another one
may not), begin lines are synced before anything is sent, and what a killed process left open is "unknown".

`perform` raises a `telemetry.errors.ControlError` when nothing was sent: NotAllowed, AlreadyRunning,
InvalidRequest, NotRecorded. Everything later is in the record. An action with a token that was already used
returns the job of that token, so that a click is sent once however often it arrives.

This package never imports collectors or history: what a write must read it gets as a `ServerReader`.
"""
