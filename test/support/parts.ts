/** A server or process that a test has started. */
export interface Part {
  stop(): Promise<unknown>
}

/** Adds a part that is there, or being started. */
export type Adding = <Added extends Part>(part: Added | Promise<Added>) => Promise<Added>

/** Starts parts that need one another, and ends the last first: when told to, or at once if one of them does not start. */
export async function startParts<Whole extends object>(start: (add: Adding) => Promise<Whole>): Promise<Whole & Part> {
  const parts: Part[] = []
  const stop = async () => {
    for (const part of parts.toReversed()) await part.stop()
  }
  try {
    const whole = await start(async (starting) => {
      const part = await starting
      parts.push(part)
      return part
    })
    // No copy, which would ask its getters once for all.
    return Object.assign(whole, { stop })
  } catch (error) {
    await stop()
    throw error
  }
}
