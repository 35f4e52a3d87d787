"""Where Spark 4.0.4 and 4.2.0 run heads and tails, by the preferred locations of the tails.

A *head* is the task of a slot and has the location of its executor; heads have the lowest indices.
A *tail* is a smaller task that any free slot may take. Six executors of two slots run 12 heads and
48 tails, on hosts of one executor and of three (a standalone cluster). The tasks only sleep: heads
0.3 s, one of them 1.5 s, tails 0.16 to 0.06 s. Either all slots are free, or a second job holds the
two slots of one executor until 24 tasks have ended, or one executor is unknown to the plan. The
markings of the tails are A: no location; B: all executors; B3: three executors each; C: the
executors of the head's host; D: all hosts.

**Findings.** Both Sparks behave alike, with `spark.locality.wait` 3 s and 0.

1. A: on hosts of three executors, every head of the held executor runs on another executor of its
   host, before the tails and without a wait. On hosts of one executor no head moves.
2. B and B3: no head moves while tails remain, and no slot waits. With B the tails run in their
   order. With B3 they run in order on each executor.
3. C: slots of other hosts wait up to 3 s while a host has tails left.
4. D: while one head waits for its executor, all free slots wait for 3 s. Then heads move within
   their host, as with A.
5. With A, an executor that the plan does not know gets tails at once, and with D if its host is
   known. With B, B3, and C it gets none during the wait.

**Reasons.** `TaskSetManager` of 4.1.1 is that of 4.0.4. That of 4.2.0 differs only in how it finds
the tasks of a lost executor. `TaskSchedulerImpl.resourceOffers` is alike, too.

- `addPendingTask` puts a task on a list of each executor and of each host among its locations, or
  on `noPrefs` if it has none. It starts with the last task and `dequeueTaskFromList` takes from the
  end, so each list is read by index.
- `resourceOffers` offers slots at each of the stage's levels: PROCESS_LOCAL, NODE_LOCAL, NO_PREF,
  RACK_LOCAL, ANY. The first offer of a stage has all free slots, so each executor takes its own
  heads before another level is tried. The offer after the end of a task has one executor.
- A: `computeValidLocalityLevels` adds NO_PREF to a stage with tasks without a location. At this
  level, `resourceOffer` skips delay scheduling, and `dequeueTaskHelper` reads the host's list
  before `noPrefs`. The host's list has the heads of its other executors. The levels are computed
  again only if executors come or go, so heads still move after the last tail.
- B, B3: tails are behind the head on the list of each executor that they name. PROCESS_LOCAL finds
  them, so no further level is reached, also with a wait of 0. A launch restarts the wait
  (`resetDelayScheduleTimer`), unless a slot was rejected since the last offer of all slots.
- C: as B, but other hosts find the tails only at ANY, after waits for the executor and the host.
- D: tails are on the lists of hosts, behind the heads of the whole host. `getAllowedLocalityLevel`
  stays at PROCESS_LOCAL while any executor's list has a task, which is the waiting head.

**Recommendation.** Mark tails as in B, and name at most 16 executors per tail, all on equally many
lists with changing strides (`markings.spread_numbers`). In a simulation, a stage with at most 16
locations takes at most 0.7% longer than one without a limit (`capped`). With zones, name executors
of the zone only. A is cheaper, and right only if no host has two executors.

**Costs.** `driver_cost` submits 1,000 heads and 6,000 tails to a scheduler with 1,000 executors and
makes its offers, once per number of locations and on a machine with other load. To read the
locations and to create the `TaskSetManager` took 1.2 s and 22 MB of the driver's heap with 16
locations per tail, 0.3 s and 3 MB with none, 8.9 s and 313 MB with 256, 29 s and 1.2 GB with all
1,000. An offer took 0.3 to 0.6 ms with any number. Here 16 consecutive executors per tail left 1%
of the tails for the wait, so strides should change. A task that is sent to its executor includes
its locations if they are a field of the partition, as in `AssignedInputPartition` today.

Not tested: speculation, excluded executors, YARN's racks, executors that end during the stage.
"""
