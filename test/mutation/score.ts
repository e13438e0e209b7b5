/** How many changes of a file, or of a folder, were noticed by a test. */
export interface Score {
  killed: number
  survived: number
  /** Survivors that have a reason. */
  named: number
  /** Changes that could have been tried. */
  all: number
}

export function createScore(): Score {
  return { killed: 0, survived: 0, named: 0, all: 0 }
}

export function addScore(to: Score, score: Score): void {
  for (const key of Object.keys(to) as (keyof Score)[]) to[key] += score[key]
}

export function formatScore({ killed, survived, named, all }: Score): string {
  const judged = killed + survived
  const parts = [
    `${killed} of ${judged} killed, ${((100 * killed) / Math.max(1, judged)).toFixed(1)}%`,
    ...(named > 0 ? [`${named} named with a reason`] : []),
    ...(judged + named < all ? [`a sample of ${judged + named} of ${all}`] : []),
  ]
  return parts.join(', ')
}
