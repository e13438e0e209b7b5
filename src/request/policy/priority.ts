/** Classes of requests, by what is lost if one is refused; the most important first. */
export const PRIORITIES = ['critical', 'default', 'sheddable'] as const

export type Priority = (typeof PRIORITIES)[number]

/** The most important class that a request's policies give it; `default` if none does. */
export function highestPriority(priorities: readonly (Priority | undefined)[]): Priority {
  return PRIORITIES.find((priority) => priorities.includes(priority)) ?? 'default'
}
