import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'

export interface Column<Row> {
  readonly name: string
  readonly cell: (row: Row) => ComponentChildren
  readonly like?: 'number' | 'wide' | undefined
  /** Default: its name. */
  readonly head?: ComponentChildren
  readonly order?: 'ascending' | 'descending' | 'none'
}

export interface TableProps<Row> {
  /** What it lists, for those who do not see it. */
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly toKey: (row: Row) => string
  /** Index of the column that heads each row; 0 by default. */
  readonly headAt?: number
  /** Columns that a phone shows at once, beside the head; a tap shows the others. Left out: all. */
  readonly brief?: readonly string[] | undefined
}

/** Rows under a head. On a phone, which has no room for the head, the style sheet names each cell by its column. */
export function Table<Row>({ label, columns, rows, toKey, headAt = 0, brief }: TableProps<Row>) {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set())
  const toggle = (key: string) =>
    setOpen((before) => new Set(before.has(key) ? [...before].filter((other) => other !== key) : [...before, key]))
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    <section class="scroll" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map(({ name, like, head = name, order }) => (
              <th key={name} scope="col" class={like} aria-sort={order}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => {
            const key = toKey(row)
            const isOpen = brief === undefined || open.has(key)
            return (
              <tr key={key} class={isOpen ? undefined : 'closed'}>
                {columns.map(({ name, like, cell }, at) =>
                  at === headAt ? (
                    <th key={name} scope="row">
                      <span>{cell(row)}</span>
                      {brief && (
                        <button type="button" class="more" aria-expanded={isOpen} onClick={() => toggle(key)}>
                          {isOpen ? 'less' : 'more'}
                        </button>
                      )}
                    </th>
                  ) : (
                    <td
                      key={name}
                      class={`${like === 'number' ? like : ''} ${brief?.includes(name) === false ? 'rest' : ''}`}
                      data-name={name}
                    >
                      {cell(row)}
                    </td>
                  ),
                )}
              </tr>
            )
          })}
        </tbody>
      </table>
    </section>
  )
}
