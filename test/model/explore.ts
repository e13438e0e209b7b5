/** A system whose every possible run is to be looked at. States are plain data. */
export interface Model<State> {
  readonly start: State
  /** All that may happen next; none if the run is over. */
  next(state: State): Iterable<State>
  /** What is wrong with a state. */
  faults(state: State, isOver: boolean): readonly string[]
  /** The same for states that are the same. */
  nameOf(state: State): string
}

export interface Exploration {
  /** Different ones. */
  readonly states: number
  /** Ways from one to another. */
  readonly steps: number
  /** In which nothing more can happen. */
  readonly ends: number
  /** Whether all were visited, rather than as many as were asked for. */
  readonly isComplete: boolean
  readonly violations: number
  /** What is wrong with the first state that is wrong. */
  readonly first: string | undefined
}

/** Visits every state that can be reached, each once, or as many as `most`. */
export function explore<State>(model: Model<State>, most = Number.POSITIVE_INFINITY): Exploration {
  const seen = new Set([model.nameOf(model.start)])
  const left = [model.start]
  let [steps, ends, violations] = [0, 0, 0]
  let first: string | undefined
  for (let state = left.pop(); state !== undefined; state = left.pop()) {
    let isOver = true
    for (const next of model.next(state)) {
      isOver = false
      steps++
      const name = model.nameOf(next)
      if (seen.has(name) || seen.size >= most) continue
      seen.add(name)
      left.push(next)
    }
    if (isOver) ends++
    const faults = model.faults(state, isOver)
    if (faults.length > 0) violations++
    first ??= faults[0]
  }
  return { states: seen.size, steps, ends, isComplete: seen.size < most, violations, first }
}
