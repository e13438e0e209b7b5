const UNANSWERED = new WeakSet<object>()

/** Marks a response that stands in for one that did not come. It says nothing about the request. */
export function markSynthetic(response: Response): Response {
  UNANSWERED.add(response)
  return response
}

/** Whether a response, or its head, was really given by what lies behind. */
export function isUpstreamResponse(response: object): boolean {
  return !UNANSWERED.has(response)
}
