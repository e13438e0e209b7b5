import type { ComponentProps } from 'preact'

/** A button beside others that are more important. */
export function Plain(props: ComponentProps<'button'>) {
  return <button type="button" class="plain" {...props} />
}
