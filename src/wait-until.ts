/** Lets work go on after the response; failures are its own to log. */
export type WaitUntil = (work: Promise<unknown>) => void
