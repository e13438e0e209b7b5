export interface CallerLinkProps {
  readonly digest: string
  /** That has refused it. */
  readonly policy?: string
  /** The name that the caller gives itself, which may be written from right to left. */
  readonly label?: string | undefined
  /** The digest stands for everyone. */
  readonly shared?: boolean
}

/** Leads to the page of a caller. */
export function CallerLink({ digest, policy = '', label, shared = false }: CallerLinkProps) {
  if (shared) return <>everyone</>
  return (
    <a href={`#caller/${encodeURIComponent(digest)}/${encodeURIComponent(policy)}`}>
      {label === undefined ? <code>{digest}</code> : <bdi>{label}</bdi>}
    </a>
  )
}
