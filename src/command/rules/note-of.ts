import type { Context } from '../subcommand.ts'

/** Who does it, and why if they say so, for the history. */
export function noteOf(
  { env }: Pick<Context, 'env'>,
  { as, why }: { readonly as?: string | undefined; readonly why?: string | undefined },
): { readonly by: string; readonly why?: string } {
  return { by: as ?? env.USER ?? env.LOGNAME ?? 'sluice', ...(why !== undefined && { why }) }
}
