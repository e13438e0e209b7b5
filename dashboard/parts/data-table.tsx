import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { type Column, Table, type TableProps } from './table.tsx'

export interface DataColumn<Row> {
  readonly name: string
  /** Sorts the rows, and is searched. */
  readonly value: (row: Row) => string | number
  /** Default: the value. */
  readonly cell?: (row: Row) => ComponentChildren
}

export interface DataTableProps<Row> extends Pick<TableProps<Row>, 'label' | 'rows' | 'toKey' | 'brief'> {
  readonly columns: readonly DataColumn<Row>[]
}

/** Shorter tables are seen at a glance. */
const MIN_SEARCHED_ROWS = 6

interface Order {
  readonly name: string
  readonly isDescending: boolean
}

/** A table that can be searched, and sorted by any column. */
export function DataTable<Row>({ label, columns, rows, toKey, brief }: DataTableProps<Row>) {
  const [search, setSearch] = useState('')
  const [order, setOrder] = useState<Order>()
  const words = search.trim().toLowerCase()
  const found = rows.filter((row) => columns.some(({ value }) => `${value(row)}`.toLowerCase().includes(words)))
  const sorting = columns.find(({ name }) => name === order?.name)
  const shown = sorting ? found.toSorted((a, b) => compareValues(sorting.value(a), sorting.value(b))) : found
  if (order?.isDescending) shown.reverse()
  const toggle = (name: string, isNumber: boolean) =>
    setOrder({ name, isDescending: order?.name === name ? !order.isDescending : isNumber })
  const direction = order?.isDescending ? 'descending' : 'ascending'
  const sortable = columns.map(({ name, value, cell = value }): Column<Row> => {
    const isNumber = rows[0] !== undefined && typeof value(rows[0]) === 'number'
    return {
      name,
      cell,
      like: isNumber ? 'number' : undefined,
      order: order?.name === name ? direction : 'none',
      head: (
        <button type="button" class="sort" onClick={() => toggle(name, isNumber)}>
          {name}
        </button>
      ),
    }
  })
  return (
    <>
      {rows.length >= MIN_SEARCHED_ROWS && (
        <input
          type="search"
          aria-label={`Search: ${label}`}
          placeholder="Search"
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
      )}
      <Table label={label} columns={sortable} rows={shown} toKey={toKey} brief={brief} />
    </>
  )
}

function compareValues(a: string | number, b: string | number): number {
  return typeof a === 'number' && typeof b === 'number' ? a - b : `${a}`.localeCompare(`${b}`)
}
